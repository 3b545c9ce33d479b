"""Schema of clients beside learning alone: in a run with companions, and in a comparison."""

from __future__ import annotations

from typing import Literal, TypedDict

Standing = Literal["better", "level", "worse"]
"""Standing of a value beside another."""


class BesideAlone(TypedDict):
    """A client's best federated model beside its lone companion, on validation data."""

    federated: float | None
    """Scalarised value; hypervolume where models take any preference. None: nothing validated."""
    alone: float | None
    standing: Standing | None
    """Standing of the federated model; None where a value is missing."""
    keeps: Literal["federated", "alone"]


class Counts(TypedDict):
    """Numbers of clients, or of seeds of one client, that are better off, level and worse off."""

    better: int
    level: int
    worse: int


class ClientGain(TypedDict):
    """Gain of one client over learning alone, paired by seed."""

    mean: float
    interval: list[float] | None
    """Student's 95 % interval of the mean; None without any spread over seeds."""
    seeds: Counts


class ClientGains(TypedDict):
    """Gains of one client over learning alone; None where a value is not known in all seeds."""

    client: int
    name: str
    validation: ClientGain | None
    """Of the best validated models, where each client keeps its own."""
    test: ClientGain | None
