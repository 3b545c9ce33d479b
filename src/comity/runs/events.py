"""Events of runs and searches: what callbacks get, as values.

An event is made where the work is done, perhaps in another process, and reaches the callbacks in
the process that called `comity.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from comity.runs.schema import Vectors


@dataclass(frozen=True, kw_only=True)
class Source:
    """The run or search that an event is about."""

    kind: Literal["run", "search"]
    run: str
    """Its directory, which tells the runs of a comparison apart."""
    problem: str
    algorithm: str
    """The algorithm as a row of a comparison names it: ``fedavg+ft``."""
    seed: int
    clients: int
    """Number of clients of a federation."""
    rounds: int
    """Number of rounds; of a search, those of all iterations."""
    objectives: tuple[str, ...]
    generator: str | None = None
    """What proposes the weights of a search."""
    control: bool = False
    """The search is the control of another, with random weights."""


@dataclass(frozen=True, kw_only=True)
class StartEvent(Source):
    """A run or search begins, or goes on after an interruption."""

    round: int
    """Rounds that were done before: 0, or those of the checkpoint."""
    settings: Mapping[str, Any]
    """The whole configuration as plain values, as ``config.toml`` has it."""


@dataclass(frozen=True, kw_only=True)
class RoundEvent(Source):
    """A round is over."""

    round: int
    """Number of the round in this run or search, from 1."""
    done: int
    """Rounds done of the whole job: of all runs of a comparison, a search with its control ..."""
    total: int
    """Rounds of the whole job."""
    seconds: float
    """Time of this run or search so far, over all interruptions."""
    metrics: Mapping[str, float]
    """Values by name, none of them missing or infinite. Of a run: ``validated``, the mean
    scalarised validation value of the models that would be handed over now; ``received/NAME``,
    ``trained/NAME``, ``kept/NAME``: means over participants by objective; ``bytes_up`` and
    ``bytes_down``. Of a search: ``iteration`` and ``hypervolume``."""
    models: Literal["kept", "last"] = "kept"
    """The models that would be handed over, which ``validated`` is about."""
    participants: tuple[int, ...] = ()
    """Clients that answered in this round of a run."""
    vectors: Mapping[str, Vectors] = field(default_factory=dict)
    """Objective vectors on validation data, one per participant: ``received``, ``trained`` and
    ``kept``, as far as they are known."""
    part: str = ""
    """Part of the whole job that is under way, in words: trials of a tuning."""
    incidents: tuple[str, ...] = ()
    """Incidents and remarks of this round, one sentence each, as in the history."""

    @property
    def text(self) -> str:
        """The round in a few words for a line of progress; empty where nothing is known yet."""
        if self.kind == "search":
            prefix = "control: " if self.control else ""
            iteration, volume = self.metrics["iteration"], self.metrics["hypervolume"]
            return f"{prefix}iteration {iteration:.0f}, hypervolume {volume:.6g}"
        if self.part or "validated" not in self.metrics:
            return self.part
        last = " (last)" if self.models == "last" else ""
        return f"validated{last} {self.metrics['validated']:.3g}"


@dataclass(frozen=True, kw_only=True)
class EndEvent(Source):
    """A run or search is finished, and its results are written."""

    seconds: float
    """Time that it took, over all interruptions."""
    results: Mapping[str, Any]
    """The content of ``results.json``."""


Event = StartEvent | RoundEvent | EndEvent
Notify = Callable[[Event], None]
"""Takes each event of a job, in order."""
OnRound = Callable[[RoundEvent], None]
"""A user's function that is called after each round."""
