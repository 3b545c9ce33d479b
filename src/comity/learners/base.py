"""The interface of all learners: local training of the clients of a fleet.

A learner is built from a `LearnerContext`; the client half of a round calls the methods of
`Learner` and gives each round's work as a `Task`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, Self

from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase, Update
from comity.core.typing import FloatArray, IntArray, NamedArrays, Tree
from comity.problems.base import Problem
from comity.settings import Settings, setting


class LearnerSettings(Settings):
    """Settings that all learners have."""

    learning_rate: float = setting(1e-3, "step size", above=0)
    local_steps: int = setting(500, "steps a client takes in a round", at_least=1)
    total_steps: int = setting(10_000, "steps a client takes in all", at_least=1)

    def decided(self, stack: int, device: str) -> Self:
        """Return the settings with every choice that is left to the run made.

        Args:
            stack: The number of clients that train as one stack.
            device: Where they train.
        """
        return self


@dataclass(frozen=True)
class LearnerContext:
    """Everything that a learner is built from, for some clients as one fleet."""

    problem: Problem
    """The problem as these clients have it (partitioned)."""
    settings: LearnerSettings
    """Settings of the learner's own class."""
    clients: tuple[int, ...]
    """Number of each client in the federation, in the order of the fleet's rows."""
    preferences: FloatArray
    """Preference of each client (clients x objectives)."""
    seed: int
    """Seed of the run, from which all random streams derive."""
    fleet: Fleet
    """Initial models. A learner copies what it keeps; training changes the fleet it is given."""
    client_model: ClientModel
    """The module that each client holds, and how it is used."""
    global_test: int | Literal["all"] = "all"
    """Number of test samples of all clients on which every model is judged, too."""


@dataclass(frozen=True)
class Task:
    """Local work of some clients in one round; arrays have one row per participating client."""

    round: int
    """Number of the round, from 1."""
    phases: Sequence[Phase]
    """Phases of local training, in their order."""
    start: Fleet
    """The models of the whole fleet at the beginning of the round."""
    goal: IntArray
    """Number of steps that each client has taken in all when the task is done."""
    broadcast: dict[str, FloatArray] = field(default_factory=dict)
    """Reply of the server to the survey, one row per client."""
    gradients: Fleet | None = None
    """Gradients that the survey took, one row per client and objective."""


class Learner(Protocol):
    """Local training of some clients, all at once.

    In all methods ``fleet`` holds the current models of all clients of the context, and ``rows``
    are the clients concerned, as rows of the fleet.
    """

    differentiable: ClassVar[bool]
    """Whether the objectives are losses with gradients, which some algorithms need."""

    def __init__(self, context: LearnerContext) -> None:
        """Prepare the training of the clients of a context."""

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Raise a `UserError` if this learner cannot learn ``problem``."""

    @property
    def sizes(self) -> FloatArray:
        """Number of training samples of each client; one for each where clients have none."""

    @property
    def round_steps(self) -> IntArray:
        """Number of steps that each client takes in a round."""

    @property
    def steps(self) -> IntArray:
        """Number of training steps that each client has taken so far."""

    @property
    def optimiser_steps(self) -> IntArray:
        """Number of optimiser steps that each client took in the last task that it worked on."""

    @property
    def skipped(self) -> IntArray:
        """Number of undefined loss terms of each client that were left out so far."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings about how this learner trains these clients (slower, compiled, pooled).

        They travel in `RoundMetrics.remarks` and stand among the ``events`` of the first round in
        the history. The ``notes`` of the results are about the data set.
        """

    def receive(self, rows: IntArray, received: Fleet) -> None:
        """Adjust what the learner keeps beside the models of clients that took over others.

        Args:
            rows: The clients that accepted what they received.
            received: What they received, one row per client of ``rows``.
        """

    def changes(self, models: Fleet, rows: IntArray, update: Update) -> Tree:
        """Return the tensors that an update gives for some clients, by name, one row per client.

        Args:
            models: The models of these clients, which stay as they are.
            rows: The clients, as rows of the fleet.
            update: A function of one client's tensors, training samples and view.
        """

    def survey(
        self,
        fleet: Fleet,
        rows: IntArray,
        statistics: Sequence[str],
        round: int,
        survey_client: Update,
    ) -> tuple[NamedArrays, Fleet | None]:
        """Return statistics of the models that some clients hold, before they train.

        Args:
            fleet: The models of all clients.
            rows: The clients that are surveyed.
            statistics: Names of the statistics: ``losses``, ``preferences``, ``gradients``, and
                those that ``survey_client`` gives.
            round: Number of the round.
            survey_client: Computes all other statistics, written for one client.

        Returns:
            The statistics by name, one row per client; and, if asked for, the gradient of each
            objective as a fleet of clients x objectives rows.
        """

    def train(self, fleet: Fleet, rows: IntArray, task: Task) -> None:
        """Train some clients in place until each has taken ``task.goal`` steps in all."""

    def train_per_objective(self, fleet: Fleet, rows: IntArray, task: Task) -> Fleet:
        """Return one trained copy per client and objective, each trained on that objective alone.

        The models in ``fleet`` stay as they are. The copies have clients x objectives rows.
        """

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Evaluate the models of some clients.

        Args:
            fleet: The models of all clients.
            rows: The clients whose models are evaluated.
            purpose: ``validation``, ``test`` or ``everyone`` (the test samples of all clients).
            episodes: Number of episodes per client; without meaning for data.

        Returns:
            The objective vector of each model, and the environment steps that it cost.
        """

    def evaluate_preferences(
        self,
        fleet: Fleet,
        rows: IntArray,
        purpose: str,
        preferences: FloatArray,
        episodes: int,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return objective vectors and losses (clients x preferences x objectives each).

        In environments there are no losses.

        Args:
            fleet: The models of all clients, whose forward takes a preference.
            rows: The clients whose models are evaluated.
            purpose: ``validation`` or ``test``.
            preferences: One preference per row.
            episodes: Number of episodes per client and preference; without meaning for data.
        """

    def restart(self, rows: IntArray, models: Fleet) -> None:
        """Forget what the learner keeps beside the models, and start anew.

        Args:
            rows: The clients that restart, because their training went wrong or other models
                were installed.
            models: The models that they start from, one row per client of ``rows``.
        """

    def companions(self) -> Fleet | None:
        """Return the tensors of all clients that travel beside the model, if there are any."""

    def state(self) -> NamedArrays:
        """Return everything that the learner needs to go on later, as plain arrays."""

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
