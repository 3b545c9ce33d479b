"""What learners with a replay buffer share: all but the mathematics of one update.

The order of things is one rollout of ``train_freq`` steps, then ``gradient_steps`` updates, as in
stable-baselines3. Clients that do the same thing at the moment are a *crew*: their tensors are
gathered into one stack and trained as one.
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
from comity.core.phases import Phase, Update, View
from comity.core.rng import stream
from comity.core.typing import AnyArray, FloatArray, IntArray, NamedArrays, Tree
from comity.learners.adam import Adam, clip
from comity.learners.base import LearnerSettings, Task
from comity.learners.replay import Replay
from comity.problems.environments import EnvironmentProblem
from comity.problems.simulators import Policy, environments
from comity.settings import setting

Generators = Sequence[np.random.Generator]
Explorer = Callable[[int, AnyArray], tuple[AnyArray, AnyArray]]
"""From a step's number in the rollout and what is observed: actions to remember, and to take."""


class OffPolicySettings(LearnerSettings):
    """Settings that all of these learners have; each problem brings its own defaults."""

    learning_rate: float = setting(1e-3, "Adam's step size", above=0)
    batch_size: int = setting(64, "transitions in one update", at_least=1)
    buffer_size: int = setting(50_000, "transitions a client remembers", at_least=1)
    learning_starts: int = setting(1000, "random steps before the first update", at_least=0)
    gamma: float = setting(0.99, "discount factor", at_least=0, at_most=1)
    train_freq: int = setting(4, "environment steps between trainings", at_least=1)
    gradient_steps: int = setting(-1, "updates a training; -1: one a step", at_least=-1)
    average_targets: bool = setting(False, "target networks travel and are mixed like the model")
    local_steps: int = setting(500, "environment steps a client takes in a round", at_least=1)
    total_steps: int = setting(10_000, "environment steps a client takes in all", at_least=1)


@dataclass
class ReplayCohort:
    """The clients being trained right now, their tensors gathered into one stack."""

    rows: IntArray
    online: Tree
    target: Fleet
    start: Fleet
    whole: bool
    moments: tuple[Fleet, Fleet]
    optimisers: dict[str, Adam]
    next_values: Tensor | None = None
    """What the target networks say, kept for as long as they do not change."""

    def part(self, prefix: str) -> list[Tensor]:
        """The parameters whose names start so."""
        return [tensor for name, tensor in self.online.items() if name.startswith(prefix)]


class OffPolicy(ABC):
    """A learner but for how it explores, what it minimises and how its models act."""

    settings: OffPolicySettings
    differentiable: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = ("",)
    """Prefixes of the tensors that are stepped together."""

    def __init__(
        self,
        problem: EnvironmentProblem,
        settings: OffPolicySettings,
        clients: tuple[int, ...],
        preferences: FloatArray,
        seed: int,
        fleet: Fleet,
    ) -> None:
        self.settings, self._clients, self._preferences = settings, clients, preferences
        self._seed = seed
        self._environments = environments(problem, clients, seed)
        self._target = fleet.clone()
        self._first = Fleet({name: torch.zeros_like(fleet[name]) for name in fleet})
        self._second = Fleet({name: torch.zeros_like(fleet[name]) for name in fleet})
        self._updates = torch.zeros(len(clients))
        self._steps = np.zeros(len(clients), dtype=np.int64)
        sample = self._environments.observe(np.array([0]))[0]
        if self._environments.features is not None:
            sample = sample.astype(np.int32)
        shape = problem.environment().action_space.shape
        action = np.zeros(shape, np.float32 if shape else np.int16)
        self._replay = Replay(
            len(clients),
            settings.buffer_size,
            before=sample,
            after=sample,
            action=action,
            reward=np.zeros((), np.float32),
            terminated=np.zeros((), np.bool_),
        )

    @classmethod
    @abstractmethod
    def check(cls, problem: EnvironmentProblem) -> None:
        """Refuse a problem that this learner cannot learn."""

    @abstractmethod
    def _explorer(self, crew: ReplayCohort, generators: Generators) -> Explorer:
        """How a crew acts during one rollout; all random numbers are drawn here."""

    @abstractmethod
    def _update(self, crew: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        """One gradient step of every client of the crew."""

    @abstractmethod
    def _policy(self, tensors: Tree) -> Policy:
        """How models act when they are judged."""

    def _prepare(self, crew: ReplayCohort, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add to the transitions of several updates what can be computed for all of them."""
        return batch

    @property
    def steps(self) -> IntArray:
        return self._steps

    @property
    def sizes(self) -> FloatArray:
        return np.ones(len(self._clients))

    @property
    def round_steps(self) -> IntArray:
        return np.full(len(self._clients), self.settings.local_steps)

    @property
    def remarks(self) -> tuple[str, ...]:
        return ()

    @property
    def skipped(self) -> IntArray:
        return np.zeros(len(self._clients), dtype=np.int64)

    # -- around training -------------------------------------------------------------------

    def receive(self, rows: IntArray, received: Fleet) -> None:
        """Target networks are the received ones, or restart from the received online ones."""
        targets = {n: received.tensors.get(f"target.{n}", received[n]) for n in self._target}
        self._target.put(rows, Fleet(targets))

    def restart(self, rows: IntArray, models: Fleet) -> None:
        self._target.put(rows, models)
        index = torch.from_numpy(rows)
        for moments in (self._first, self._second):
            for tensor in moments.tensors.values():
                tensor[index] = 0.0
        self._updates[index] = 0.0

    def companions(self) -> Fleet | None:
        if not self.settings.average_targets:
            return None
        return Fleet({f"target.{name}": tensor for name, tensor in self._target.tensors.items()})

    def evaluate(
        self, fleet: Fleet, rows: IntArray, purpose: str, episodes: int
    ) -> tuple[FloatArray, IntArray]:
        policy = self._policy(fleet.select(rows).tensors)
        return self._environments.evaluate(rows, policy, episodes, purpose)

    # -- training --------------------------------------------------------------------------

    def survey(
        self, fleet: Fleet, rows: IntArray, asked: Sequence[str], round: int, survey_client: Update
    ) -> tuple[NamedArrays, Fleet | None]:
        raise NotImplementedError("environments have no differentiable objectives")

    def evaluate_preferences(
        self, fleet: Fleet, rows: IntArray, purpose: str, preferences: FloatArray
    ) -> FloatArray:
        raise NotImplementedError("policies are not made for preferences on demand")

    def train_per_objective(self, fleet: Fleet, rows: IntArray, task: Task) -> Fleet:
        raise NotImplementedError("environments have no differentiable objectives")

    def train(self, fleet: Fleet, rows: IntArray, task: Task) -> None:
        keys = {row: (task.round, self._clients[row]) for row in rows}
        explore = {row: stream(self._seed, "explore", *keys[row]) for row in rows}
        replay = {row: stream(self._seed, "replay", *keys[row]) for row in rows}
        (phase,), start = task.phases, task.start
        crew: ReplayCohort | None = None
        while True:
            active = rows[self._steps[rows] < task.goal]
            if crew is None or not np.array_equal(crew.rows, active):
                if crew is not None:
                    self._disband(fleet, crew)
                if not len(active):
                    return
                crew = self._gather(fleet, active, start)
            self._rollout(crew, [explore[row] for row in active])
            learning = active[self._steps[active] > self.settings.learning_starts]
            if not len(learning):
                continue
            if len(learning) < len(active):
                self._disband(fleet, crew)
                crew = self._gather(fleet, learning, start)
            self._learn(crew, phase, [replay[row] for row in learning])

    def _gather(self, fleet: Fleet, rows: IntArray, start: Fleet) -> ReplayCohort:
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

    def _disband(self, fleet: Fleet, crew: ReplayCohort) -> None:
        if not crew.whole:
            fleet.put(crew.rows, Fleet({name: t.detach() for name, t in crew.online.items()}))
            self._target.put(crew.rows, crew.target)
            self._first.put(crew.rows, crew.moments[0])
            self._second.put(crew.rows, crew.moments[1])

    @torch.no_grad()
    def _rollout(self, crew: ReplayCohort, generators: Generators) -> None:
        """Each client takes ``train_freq`` steps into its own buffer."""
        rows = crew.rows
        explorer = self._explorer(crew, generators)
        for number in range(self.settings.train_freq):
            before = self._environments.observe(rows)
            action, taken = explorer(number, before)
            step = self._environments.step(rows, taken)
            self._replay.add(
                rows,
                before=before,
                after=step.after,
                action=action,
                reward=(step.reward * self._preferences[rows]).sum(axis=1),
                terminated=step.terminated,
            )
            self._steps[rows] += 1

    def _learn(self, crew: ReplayCohort, phase: Phase, generators: Generators) -> None:
        s = self.settings
        count = s.train_freq if s.gradient_steps == -1 else s.gradient_steps
        if not count:
            return
        draws = np.stack([generator.random(count * s.batch_size) for generator in generators])
        batch = self._prepare(crew, self._replay.sample(crew.rows, draws))
        for at in range(0, count * s.batch_size, s.batch_size):
            part = slice(at, at + s.batch_size)
            self._update(crew, phase, {name: tensor[:, part] for name, tensor in batch.items()})
            self._updates[crew.rows] += 1

    def _descend(
        self,
        crew: ReplayCohort,
        phase: Phase,
        loss: Tensor,
        part: str = "",
        limit: float | None = None,
    ) -> None:
        """Step one part of the models against its gradient of the loss and of the penalty."""
        penalty = phase.penalty
        if penalty is not None:

            def of_one(tensors: Tree, received: Tree) -> Tensor:
                return penalty(tensors, View(received))

            loss = loss + vmap(of_one)(crew.online, crew.start.tensors).sum()
        grads = torch.autograd.grad(loss, crew.part(part))
        if limit is not None:
            clip(grads, limit)
        counts = self._updates[crew.rows]
        crew.optimisers[part].step(grads, counts, self.settings.learning_rate)

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        state: NamedArrays = {
            f"{part}.{name}": tensor.numpy()
            for part, fleet in self._fleets().items()
            for name, tensor in fleet.tensors.items()
        }
        state["updates"], state["steps"] = self._updates.numpy(), self._steps
        for part, values in (("replay", self._replay), ("environment", self._environments)):
            state.update({f"{part}.{name}": value for name, value in values.state().items()})
        return state

    def load(self, state: NamedArrays) -> None:
        for part, fleet in self._fleets().items():
            for name, tensor in fleet.tensors.items():
                tensor.copy_(torch.from_numpy(state[f"{part}.{name}"]))
        self._updates.copy_(torch.from_numpy(state["updates"]))
        self._steps = state["steps"].copy()
        for part, values in (("replay", self._replay), ("environment", self._environments)):
            prefix = f"{part}."
            values.load(
                {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            )

    def _fleets(self) -> dict[str, Fleet]:
        return {"target": self._target, "first": self._first, "second": self._second}
