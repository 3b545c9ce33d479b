"""Common base of the learners with a replay buffer: all but the mathematics of one update.

One rollout of ``train_freq`` steps, then ``gradient_steps`` updates, as in stable-baselines3.
Clients that act or learn at the same time are a *cohort*: their tensors are gathered into one
stack and trained as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from comity.core.fleet import Fleet
from comity.core.phases import Phase, Update, View, summed
from comity.core.rng import stream
from comity.core.storage import strip_prefix
from comity.core.typing import AnyArray, FloatArray, IntArray, NamedArrays, Tree
from comity.learners.adam import Adam, clip
from comity.learners.base import LearnerContext, LearnerSettings, Task
from comity.learners.replay import Replay
from comity.problems.base import Problem
from comity.problems.environments import EnvironmentProblem
from comity.problems.simulators import Policy, Step, environments
from comity.settings import setting

Generators = Sequence[np.random.Generator]
"""One random generator per client of a cohort."""
Explorer = Callable[[int, AnyArray], tuple[AnyArray, AnyArray]]
"""From a step's number in the rollout and the observations: actions to store, and to take."""


class OffPolicySettings(LearnerSettings):
    """Settings of all learners with a replay buffer; each problem has its own defaults."""

    learning_rate: float = setting(1e-3, "Adam's step size", above=0)
    batch_size: int = setting(64, "transitions in one update", at_least=1)
    buffer_size: int = setting(50_000, "transitions kept per client", at_least=1)
    learning_starts: int = setting(1000, "random steps before the first update", at_least=0)
    gamma: float = setting(0.99, "discount factor", at_least=0, at_most=1)
    train_freq: int = setting(4, "environment steps between trainings", at_least=1)
    gradient_steps: int = setting(-1, "updates per training; -1: one per step", at_least=-1)
    average_targets: bool = setting(False, "target networks travel and are mixed like the model")
    local_steps: int = setting(500, "environment steps a client takes in a round", at_least=1)
    total_steps: int = setting(10_000, "environment steps a client takes in all", at_least=1)


@dataclass
class ReplayCohort:
    """Clients that act and learn together, their tensors gathered into one stack."""

    rows: IntArray
    """The clients, as rows of the fleet."""
    online: Tree
    """Tensors of the models that are trained."""
    target: Fleet
    """Target networks."""
    start: Fleet
    """The models at the beginning of the round."""
    whole: bool
    """Whether these are all clients, whose tensors are then shared with the fleet, not copied."""
    moments: tuple[Fleet, Fleet]
    """First and second moments of Adam."""
    optimisers: dict[str, Adam]
    """Optimiser per prefix of `OffPolicy.parts`."""
    next_values: Tensor | None = None
    """Values of all tabulated states in the target networks, until these change."""

    def parameters(self, prefix: str) -> list[Tensor]:
        """Return the trained tensors whose names begin with ``prefix``."""
        return [tensor for name, tensor in self.online.items() if name.startswith(prefix)]


class OffPolicy(ABC):
    """A learner without its exploration, its loss and its policy, which subclasses add."""

    settings: OffPolicySettings
    differentiable: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ("",)
    """Prefixes of the tensors that one optimiser steps together."""

    def __init__(self, context: LearnerContext) -> None:
        problem, settings = context.problem, context.settings
        assert isinstance(problem, EnvironmentProblem)
        assert isinstance(settings, OffPolicySettings)
        self.settings = settings
        self._clients, self._preferences = context.clients, context.preferences
        self._seed = context.seed
        self._environments = environments(problem, context.clients, context.seed)
        objectives = len(problem.objectives)
        fleet, count = context.fleet, len(context.clients)
        self._target = fleet.clone()
        self._first = Fleet({name: torch.zeros_like(fleet[name]) for name in fleet})
        self._second = Fleet({name: torch.zeros_like(fleet[name]) for name in fleet})
        self._updates = torch.zeros(count)
        self._optimiser_steps = np.zeros(count, dtype=np.int64)
        self._steps = np.zeros(count, dtype=np.int64)
        sample = self._environments.observe(np.array([0]))[0]
        if self._environments.features is not None:
            sample = sample.astype(np.int32)
        self._action_space = problem.environment().action_space
        shape = self._action_space.shape
        action = np.zeros(shape, np.float32 if shape else np.int16)
        self._replay = Replay(
            count,
            settings.buffer_size,
            before=sample,
            after=sample,
            action=action,
            reward=self._stored(np.zeros((1, objectives)), np.array([0]))[0].astype(np.float32),
            terminated=np.zeros((), np.bool_),
        )

    @classmethod
    @abstractmethod
    def check(cls, problem: Problem) -> None:
        """Raise a `UserError` if this learner cannot learn ``problem``."""

    @abstractmethod
    def _explorer(self, cohort: ReplayCohort, generators: Generators) -> Explorer:
        """Return how a cohort acts during one rollout; all random numbers are drawn here."""

    @abstractmethod
    def _update(self, cohort: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        """Take one gradient step with every client of a cohort."""

    @abstractmethod
    def _policy(self, tensors: Tree) -> Policy:
        """Return how models act when they are evaluated."""

    def _prepare(self, cohort: ReplayCohort, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add to the transitions of several updates what can be computed for all at once."""
        return batch

    @property
    def steps(self) -> IntArray:
        """Number of environment steps that each client has taken."""
        return self._steps

    @property
    def optimiser_steps(self) -> IntArray:
        """Number of gradient steps that each client took in its last task."""
        return self._optimiser_steps

    @property
    def sizes(self) -> FloatArray:
        """One for each client: environments have no samples to count."""
        return np.ones(len(self._clients))

    @property
    def round_steps(self) -> IntArray:
        """Number of environment steps that each client takes in a round."""
        return np.full(len(self._clients), self.settings.local_steps)

    @property
    def remarks(self) -> tuple[str, ...]:
        """No warnings."""
        return ()

    @property
    def skipped(self) -> IntArray:
        """Zero for each client: returns are always defined."""
        return np.zeros(len(self._clients), dtype=np.int64)

    # -- around training -------------------------------------------------------------------

    def receive(self, rows: IntArray, received: Fleet) -> None:
        """Set the target networks to the received ones, or else to the received models."""
        targets = {n: received.tensors.get(f"target.{n}", received[n]) for n in self._target}
        self._target.put(rows, Fleet(targets))

    def restart(self, rows: IntArray, models: Fleet) -> None:
        """Set the target networks to the models and the optimisers to zero; keep the buffers."""
        self._target.put(rows, models)
        index = torch.as_tensor(rows)
        for moments in (self._first, self._second):
            for tensor in moments.tensors.values():
                tensor[index] = 0.0
        self._updates[index] = 0.0

    def companions(self) -> Fleet | None:
        """Return the target networks, if the setting ``average_targets`` sends them."""
        if not self.settings.average_targets:
            return None
        return Fleet({f"target.{name}": tensor for name, tensor in self._target.tensors.items()})

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        """Return mean returns of the models' policies, and the environment steps they took."""
        policy = self._policy(fleet.select(rows).tensors)
        return self._environments.evaluate(rows, policy, episodes, purpose)

    # -- training --------------------------------------------------------------------------

    def changes(self, models: Fleet, rows: IntArray, update: Update) -> Tree:
        """Raise `NotImplementedError`: updates look at samples."""
        raise NotImplementedError("environments have no samples")

    def survey(
        self,
        fleet: Fleet,
        rows: IntArray,
        statistics: Sequence[str],
        round: int,
        survey_client: Update,
    ) -> tuple[NamedArrays, Fleet | None]:
        """Raise `NotImplementedError`: only losses are surveyed."""
        raise NotImplementedError("environments have no differentiable objectives")

    def evaluate_preferences(
        self,
        fleet: Fleet,
        rows: IntArray,
        purpose: str,
        preferences: FloatArray,
        episodes: int,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Raise `NotImplementedError`: policies take no preference."""
        raise NotImplementedError("policies are not made for preferences on demand")

    def train_per_objective(self, fleet: Fleet, rows: IntArray, task: Task) -> Fleet:
        """Raise `NotImplementedError`: only losses are trained one by one."""
        raise NotImplementedError("environments have no differentiable objectives")

    def train(self, fleet: Fleet, rows: IntArray, task: Task) -> None:
        """Train clients in place, each until it has taken ``task.goal`` environment steps."""
        keys = {row: (task.round, self._clients[row]) for row in rows}
        explore = {row: stream(self._seed, "explore", *keys[row]) for row in rows}
        replay = {row: stream(self._seed, "replay", *keys[row]) for row in rows}
        (phase,), start = task.phases, task.start
        self._optimiser_steps[rows] = 0
        cohort: ReplayCohort | None = None
        while True:
            active = rows[self._steps[rows] < task.goal]
            if cohort is None or not np.array_equal(cohort.rows, active):
                if cohort is not None:
                    self._put_back(fleet, cohort)
                if not len(active):
                    return
                cohort = self._gather(fleet, active, start)
            self._rollout(cohort, [explore[row] for row in active])
            learning = active[self._steps[active] > self.settings.learning_starts]
            if not len(learning):
                continue
            if len(learning) < len(active):
                self._put_back(fleet, cohort)
                cohort = self._gather(fleet, learning, start)
            self._learn(cohort, phase, [replay[row] for row in learning])

    def _gather(self, fleet: Fleet, rows: IntArray, start: Fleet) -> ReplayCohort:
        """Return the stacked tensors of some clients, and their optimisers."""
        online = {
            name: tensor.detach().requires_grad_()
            for name, tensor in fleet.select(rows).tensors.items()
        }
        target, first, second = (
            part.select(rows) for part in (self._target, self._first, self._second)
        )
        optimisers = {}
        for prefix in self.parts:
            names = [name for name in online if name.startswith(prefix)]
            optimisers[prefix] = Adam(
                [online[name].detach() for name in names],
                [first[name] for name in names],
                [second[name] for name in names],
            )
        return ReplayCohort(
            rows=rows,
            online=online,
            target=target,
            start=start.select(rows),
            whole=len(rows) == len(fleet),
            moments=(first, second),
            optimisers=optimisers,
        )

    def _put_back(self, fleet: Fleet, cohort: ReplayCohort) -> None:
        """Write the tensors of a cohort to where `_gather` took them from."""
        if not cohort.whole:
            fleet.put(cohort.rows, Fleet({name: t.detach() for name, t in cohort.online.items()}))
            self._target.put(cohort.rows, cohort.target)
            self._first.put(cohort.rows, cohort.moments[0])
            self._second.put(cohort.rows, cohort.moments[1])

    @torch.no_grad()
    def _rollout(self, cohort: ReplayCohort, generators: Generators) -> None:
        """Take ``train_freq`` environment steps with each client, into its own buffer."""
        rows = cohort.rows
        explorer = self._explorer(cohort, generators)
        for number in range(self.settings.train_freq):
            before = self._environments.observe(rows)
            action, taken = explorer(number, before)
            step = self._step(rows, taken)
            self._replay.add(
                rows,
                before=before,
                after=step.after,
                action=action,
                reward=self._stored(step.reward, rows),
                terminated=step.terminated,
            )
            self._steps[rows] += 1

    def _stored(self, reward: FloatArray, rows: IntArray) -> FloatArray:
        """Return what buffers keep of reward vectors: scalars at the clients' own preferences."""
        return np.asarray((reward * self._preferences[rows]).sum(axis=1))

    def _step(self, rows: IntArray, actions: AnyArray) -> Step:
        """Take one environment step with each client."""
        return self._environments.step(rows, actions)

    def _learn(self, cohort: ReplayCohort, phase: Phase, generators: Generators) -> None:
        """Take the updates that follow one rollout."""
        s = self.settings
        count = s.train_freq if s.gradient_steps == -1 else s.gradient_steps
        if not count:
            return
        draws = np.stack([generator.random(count * s.batch_size) for generator in generators])
        batch = self._prepare(cohort, self._replay.sample(cohort.rows, draws))
        for at in range(0, count * s.batch_size, s.batch_size):
            part = slice(at, at + s.batch_size)
            self._update(cohort, phase, {name: tensor[:, part] for name, tensor in batch.items()})
            self._updates[cohort.rows] += 1
            self._optimiser_steps[cohort.rows] += 1

    def _descend(
        self,
        cohort: ReplayCohort,
        phase: Phase,
        loss: Tensor,
        part: str = "",
        limit: float | None = None,
    ) -> None:
        """Step one part of the models down the gradient of a loss and of the phase's penalty.

        Args:
            cohort: The clients.
            phase: The phase, for its penalty.
            loss: Sum of the clients' losses.
            part: Prefix of the tensors that are stepped, one of ``parts``.
            limit: Largest norm of a client's gradient; None does not clip.
        """
        penalty = phase.penalty
        if penalty is not None:

            def client_penalty(tensors: Tree, received: Tree) -> Tensor:
                return penalty(tensors, View(received))

            loss = loss + summed(vmap(client_penalty)(cohort.online, cohort.start.tensors))
        grads = torch.autograd.grad(loss, cohort.parameters(part))
        if limit is not None:
            clip(grads, limit)
        counts = self._updates[cohort.rows]
        cohort.optimisers[part].step(grads, counts, self.settings.learning_rate)

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return target networks, moments, counts, buffers and environments as plain arrays."""
        state: NamedArrays = {
            f"{part}.{name}": tensor.numpy(force=True)
            for part, fleet in self._fleets().items()
            for name, tensor in fleet.tensors.items()
        }
        state["updates"], state["steps"] = self._updates.numpy(force=True), self._steps
        for part, values in (("replay", self._replay), ("environment", self._environments)):
            state.update({f"{part}.{name}": value for name, value in values.state().items()})
        return state

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
        for part, fleet in self._fleets().items():
            for name, tensor in fleet.tensors.items():
                tensor.copy_(torch.as_tensor(state[f"{part}.{name}"]))
        self._updates.copy_(torch.as_tensor(state["updates"]))
        self._steps = state["steps"].copy()
        for part, values in (("replay", self._replay), ("environment", self._environments)):
            values.load(strip_prefix(state, f"{part}."))

    def _fleets(self) -> dict[str, Fleet]:
        """Return target networks and moments by their names in `state`."""
        return {"target": self._target, "first": self._first, "second": self._second}
