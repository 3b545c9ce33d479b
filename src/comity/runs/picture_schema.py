"""Schema of a reproduced table of accuracies on pictures."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from comity.runs.schema import Difference, HowSoon, Spread


class PictureRow(TypedDict):
    """One row of a printed table beside ours, in one partition and setting."""

    algorithm: str
    """Name of the row."""
    entry: str
    """Entry of the comparison behind it."""
    partition: str
    clients: NotRequired[int]
    participation: NotRequired[float]
    local_epochs: NotRequired[int]
    alpha: NotRequired[float]
    seeds: list[int]
    ours: dict[str, Spread | None]
    """By measure; accuracies are shares."""
    printed: dict[str, float]
    """By measure, where all is as printed."""
    trivial: float
    """Accuracy of the constant classifier."""
    how_soon: NotRequired[HowSoon]
    over: NotRequired[dict[str, Difference]]
    """Gain of a wrapped host over the ``host`` and over the ``control``."""


class PrintedElsewhere(TypedDict):
    """A printed figure beside which none of ours stands."""

    data: str
    setting: str
    algorithm: str
    metric: str
    value: float


class PictureResults(TypedDict):
    """A printed table of accuracies on pictures beside ours."""

    table: str
    title: str
    problem: str
    stands_in_for: str | None
    """Printed data set that the problem stands in for; None: it is the printed one."""
    measures: list[str]
    across: str | None
    """What the picture has on its horizontal axis; None: rows side by side."""
    varied: list[str]
    """Settings that differ between parts of the table, besides the partition."""
    protocol: dict[str, Any]
    """Settings of all runs; rounds of lone clients and of agents' training."""
    note: str
    """What is not known of the printed table."""
    rows: list[PictureRow]
    printed_elsewhere: list[PrintedElsewhere]
