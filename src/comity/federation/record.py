"""The record of a round: what the server saw, for the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from comity.core.packing import plain
from comity.core.typing import FloatArray


@dataclass
class RoundRecord:
    """One round as the server saw it, for the history."""

    round: int
    clients: tuple[int, ...]
    """Clients that answered."""
    clusters: list[list[int]] | None = None
    """Partition of the clients, for algorithms that keep one."""
    chosen: bool = False
    """The models of this round are those that all clients keep so far."""
    worth: float | None = None
    """Mean value on validation data that clients report, where one round is kept for all."""
    measure: Literal["hypervolume", "utility"] = "hypervolume"
    """Kind of this value (`Algorithm.select_by`)."""
    conflict: dict[str, float] | None = None
    """Measures of the wrappers: how much updates were against each other."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Other diagnostics of the algorithm, as plain values."""
    heard: dict[int, tuple[int, ...]] | None = None
    """Clients whose models each client heard and could use, where there is no server."""
    mixing: FloatArray | None = None
    """Weight of each client's update (columns) in each client's server model (rows)."""
    bytes_up: int = 0
    """Bytes of all sealed messages from clients to the server."""
    bytes_down: int = 0
    """Bytes of all sealed messages from the server to clients."""
    events: list[str] = field(default_factory=list)
    """Incidents, one sentence each."""
    absent: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Clients that were asked and did not answer, by exchange: survey, round or finish."""
    unmixed: bool = False
    """Clients sent models, but nothing could be mixed of them."""
    time: float | None = None
    """Seconds from the beginning of the contact plan, with links."""
    ages: tuple[int, ...] = ()
    """With links, the mixings by which each client's update is late, one per client."""
    dropped: tuple[int, ...] = ()
    """Clients whose updates were too old to be mixed."""

    def note_unmixed(self, reason: str) -> None:
        """Note that nothing was mixed of what clients sent; the server keeps what it had."""
        self.events.append(f"round {self.round}: {reason}; nothing was mixed")
        self.unmixed = True

    def note_diagnostics(self, values: Mapping[str, Any]) -> None:
        """Note what `Algorithm.diagnostics` returned; ``clusters`` have a place of their own."""
        self.clusters = values.get("clusters")
        self.diagnostics = {k: plain(value) for k, value in values.items() if k != "clusters"}
