"""Schema of what is written about messages, links and neighbours."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Communication(TypedDict):
    """Bytes of the sealed messages that clients sent and received."""

    bytes_up: int
    bytes_down: int
    bytes_per_update: NotRequired[float]
    """Mean bytes that one client sends in one round."""


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


class NeighbourResult(TypedDict):
    """Contacts among clients without a server."""

    heard: float
    """Clients that a client heard in a round, on average."""
    pairs: int
    """Pairs of which at least one has heard the other."""
    possible_pairs: int
