"""Schema of reproductions whose rows hold more than one number: clusters, ranges, two tasks."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from comity.runs.schema import PrintedValue, ReproductionNotes

Range = list[float]
"""Smallest and largest value."""
Ranges = dict[str, Range]
"""Range by objective."""


class ClusterRound(TypedDict):
    """Clusters after one round, over seeds."""

    round: int
    sizes: list[list[int]]
    """Sizes of the clusters, largest first, per seed."""
    adjusted_rand: NotRequired[list[float]]
    """Agreement with groups of equal preferences, per seed; absent where there are no groups."""


class ClusterRow(TypedDict):
    """Clusters of one entry under one specification of preferences."""

    algorithm: str
    preferences: str
    clients: int
    seeds: list[int]
    shown: list[int]
    """Rounds that the thesis shows, as far as they were run, and the last one."""
    rounds: list[ClusterRound]


class ClusterResults(ReproductionNotes):
    """Clusters by round; the thesis has only pictures of them."""

    measure: Literal["clusters"]
    problem: str
    rows: list[ClusterRow]


class RangeRow(TypedDict):
    """Ranges of the objectives on the front of one algorithm; None: no point is on a front."""

    algorithm: str
    preferences: str
    seeds: list[int]
    printed: Ranges
    paper_protocol: Ranges | None
    our_defaults: Ranges | None
    trivial: float


class RangeResults(ReproductionNotes):
    """Printed ranges of the objectives on fronts beside ours."""

    measure: Literal["ranges"]
    problem: str
    rows: list[RangeRow]


class WeightedPoint(TypedDict):
    """Accuracies of one client's model, and the client's weight on the left digit."""

    weight: float
    seed: int
    left: float
    right: float


class TwoTaskRow(TypedDict):
    """Models of one algorithm for two clients with opposite preferences."""

    algorithm: str
    seeds: list[int]
    left: Range
    """Range over weights of the mean accuracy on the left digit."""
    left_inner: Range
    """The same over weights from 0.1 to 0.9."""
    hypervolume: PrintedValue
    """Hypervolume of each seed's models, from (0, 0)."""
    points: list[WeightedPoint]


class TwoTaskResults(ReproductionNotes):
    """Two clients with two tasks, federated and alone; the thesis has only a picture."""

    measure: Literal["two_tasks"]
    problem: str
    reference_point: list[float]
    rows: list[TwoTaskRow]
