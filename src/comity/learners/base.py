"""What a learner is: how the clients of a fleet improve their models locally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from comity.core.fleet import Fleet
from comity.core.phases import Phase, Update
from comity.settings import Settings, setting

Rows = NDArray[np.int64]
Values = dict[str, NDArray[Any]]


class LearnerSettings(Settings):
    """Settings that all learners have."""

    learning_rate: float = setting(1e-3, "step size", above=0)
    local_steps: int = setting(500, "steps a client takes in a round", at_least=1)
    total_steps: int = setting(10_000, "steps a client takes in all", at_least=1)

    def decided(self, stack: int) -> Self:
        """With everything that depends on the size of a run (clients in a stack) written down."""
        return self


@dataclass(frozen=True)
class Task:
    """What some clients are to do in a round."""

    round: int
    phases: Sequence[Phase]
    start: Fleet
    """The models of the whole fleet as they were when the round began."""
    goal: Rows
    """How many steps each of the clients shall have taken in all."""
    brief: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """What the server told each of them, one row a client."""


class Learner(Protocol):
    """Local training of some clients, all at once. ``rows`` are places in the fleet."""

    differentiable: ClassVar[bool]
    """Whether its objectives are losses with gradients, which some algorithms need."""

    @property
    def sizes(self) -> NDArray[np.float64]:
        """How much data each client has; equal for environments."""

    @property
    def round_steps(self) -> Rows:
        """How many steps each client takes in a round."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know about how this learner works here."""

    @property
    def skipped(self) -> Rows:
        """How many loss terms of each client were left out so far, being undefined."""

    def receive(self, rows: Rows, received: Fleet) -> None:
        """Clients took over received models: adjust what the learner keeps beside the model."""

    def survey(
        self, fleet: Fleet, rows: Rows, asked: Sequence[str], round: int, answer: Update
    ) -> tuple[Values, Fleet | None]:
        """What some clients find of the models they hold: losses, gradients of each objective.

        ``answer`` gives whatever else is asked.
        """

    def train(self, fleet: Fleet, rows: Rows, task: Task) -> None:
        """Train some clients in place until each has taken ``task.goal`` steps in all."""

    def train_apart(self, fleet: Fleet, rows: Rows, task: Task) -> Fleet:
        """Train one copy an objective, on it alone; the models themselves stay as they are."""

    def judge(
        self, fleet: Fleet, rows: Rows, purpose: str, episodes: int
    ) -> tuple[NDArray[np.float64], Rows]:
        """Objective vector of each client's model, and what judging cost in steps."""

    def span(
        self, fleet: Fleet, rows: Rows, purpose: str, preferences: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Objective vectors of each client's model at several preferences (clients x those)."""

    def restart(self, rows: Rows, models: Fleet) -> None:
        """Training of these clients went wrong: start anew from given models."""

    def companions(self) -> Fleet | None:
        """Tensors that travel beside the model, if the settings say so."""

    @property
    def steps(self) -> Rows:
        """Training steps each client has taken."""

    def state(self) -> Values: ...

    def load(self, state: Values) -> None: ...
