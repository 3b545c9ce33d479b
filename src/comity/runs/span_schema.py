"""Schema of what models that take any preference reach, in ``results.json``."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class ServedRegret(TypedDict):
    """Regret of clients' policies over the tested preferences; means are over honest clients."""

    against: str
    """Set of best returns from which it is measured."""
    mean: float
    per_preference: list[float]
    per_client: list[float]


class Served(TypedDict):
    """Returns of clients' policies at each tested preference; means are over honest clients."""

    preferences: list[list[float]]
    returns: list[list[float]]
    """Mean return vector per preference."""
    dominated: float
    """Mean share of a client's return vectors that another of its own dominates."""
    regret: NotRequired[ServedRegret]
    """Where a front or a set of good returns is known."""


class SpanResult(TypedDict):
    """Hypervolume of what clients reach at many preferences."""

    preferences: int
    hypervolume: float
    per_client: list[float]
    served: NotRequired[Served]
    """In environments."""
