"""Schema of what is written about links."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class UpdateCounts(TypedDict):
    """Updates per client."""

    least: int
    median: float
    most: int


class Ages(TypedDict):
    """Mixings by which updates are late."""

    mean: float
    most: int


class LinkResults(TypedDict):
    """Use that a federation made of its links."""

    days: float
    """Length of the contact plan."""
    rounds: int
    updates: int
    updates_per_client: UpdateCounts
    age: Ages
    bytes_up: int
    bytes_down: int
    radio_seconds: float
    """Time that transmitters of clients were on, for the bytes that were really sent."""
    energy_joules: NotRequired[float]
    pass_use: float
    """Share of the time of all passes that was planned for messages."""
    late_dropped: int
    """Updates that were too old to be mixed."""
