"""What a learner is: how the clients of a fleet improve their models locally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

from comity.core.fleet import Fleet
from comity.core.phases import Phase, Update
from comity.core.typing import FloatArray, IntArray, NamedArrays
from comity.settings import Settings, setting


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
    goal: IntArray
    """How many steps each of the clients shall have taken in all."""
    broadcast: dict[str, FloatArray] = field(default_factory=dict)
    """Reply of the server to the survey, one row per client."""
    gradients: Fleet | None = None
    """Gradients that the survey took, one row per client and objective."""


class Learner(Protocol):
    """Local training of some clients, all at once. ``rows`` are places in the fleet."""

    differentiable: ClassVar[bool]
    """Whether its objectives are losses with gradients, which some algorithms need."""

    @property
    def sizes(self) -> FloatArray:
        """How much data each client has; equal for environments."""

    @property
    def round_steps(self) -> IntArray:
        """How many steps each client takes in a round."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know about how this learner works here."""

    @property
    def skipped(self) -> IntArray:
        """How many loss terms of each client were left out so far, being undefined."""

    def receive(self, rows: IntArray, received: Fleet) -> None:
        """Clients took over received models: adjust what the learner keeps beside the model."""

    def survey(
        self, fleet: Fleet, rows: IntArray, asked: Sequence[str], round: int, survey_client: Update
    ) -> tuple[NamedArrays, Fleet | None]:
        """What some clients find of the models they hold: losses, gradients of each objective.

        ``survey_client`` gives whatever else is asked.
        """

    def train(self, fleet: Fleet, rows: IntArray, task: Task) -> None:
        """Train some clients in place until each has taken ``task.goal`` steps in all."""

    def train_per_objective(self, fleet: Fleet, rows: IntArray, task: Task) -> Fleet:
        """Train one copy an objective, on it alone; the models themselves stay as they are."""

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Objective vector of each client's model, and what judging cost in steps."""

    def evaluate_preferences(
        self, fleet: Fleet, rows: IntArray, purpose: str, preferences: FloatArray
    ) -> FloatArray:
        """Objective vectors of each client's model at several preferences (clients x those)."""

    def restart(self, rows: IntArray, models: Fleet) -> None:
        """Training of these clients went wrong: start anew from given models."""

    def companions(self) -> Fleet | None:
        """Tensors that travel beside the model, if the settings say so."""

    @property
    def steps(self) -> IntArray:
        """Training steps each client has taken."""

    def state(self) -> NamedArrays: ...

    def load(self, state: NamedArrays) -> None: ...
