"""Stepping of environments, for some clients together.

Two kinds share one interface: problems with few states become one look-up table that steps all
clients at once; any other mo-gymnasium environment is stepped client by client. Every episode has
its own seed, derived from (run seed, client, episode), so a simulator whose state cannot be saved
is restored by replaying the running episode from its seed and actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from comity.core.rng import stream
from comity.core.typing import AnyArray, BoolArray, Float32Array, FloatArray, IntArray, NamedArrays
from comity.errors import UserError

if TYPE_CHECKING:
    from comity.problems.environments import EnvironmentProblem

Policy = Callable[[AnyArray], AnyArray]
"""Map of observations (clients x episodes x ...) to actions (clients x episodes x ...)."""


@dataclass(frozen=True)
class Step:
    """Result of one step of some clients, one row per client."""

    reward: FloatArray
    """Reward vectors (clients x objectives)."""
    after: AnyArray
    """Observations after the step, before any reset."""
    terminated: BoolArray
    """Whether the episode ended by itself."""
    truncated: BoolArray
    """Whether the time limit cut the episode."""


class Environments(Protocol):
    """One running environment per client; ``rows`` are indices of clients."""

    features: Float32Array | None
    """Observation of each state where states are tabulated (observations are then indices)."""

    def observe(self, rows: IntArray) -> AnyArray:
        """Return the current observation of each of the ``rows``."""
        ...

    def step(self, rows: IntArray, actions: AnyArray) -> Step:
        """Take one action per row; an environment whose episode ends is reset."""
        ...

    def evaluate(
        self, rows: IntArray, policy: Policy, episodes: int, purpose: str
    ) -> tuple[FloatArray, IntArray]:
        """Return mean return vectors of a deterministic policy, and environment steps, per client.

        Args:
            rows: Indices of the clients to evaluate.
            policy: Policy of all of them.
            episodes: Episodes per client.
            purpose: Random stream of the episodes' seeds, e.g. ``validation`` or ``test``.
        """
        ...

    def state(self) -> NamedArrays:
        """Return what `load` needs to continue all running episodes."""
        ...

    def load(self, state: NamedArrays) -> None:
        """Continue the episodes of a `state`."""
        ...


def environments(problem: EnvironmentProblem, clients: Sequence[int], seed: int) -> Environments:
    """Return environments for some clients, tabulated where the problem allows it.

    Args:
        problem: Problem that makes the environments.
        clients: Numbers of the clients, which decide the seeds of their episodes.
        seed: Seed of the run.
    """
    if problem.place is not None:
        return TableEnvironments(problem, len(clients))
    return GymEnvironments(problem, clients, seed)


def _time_limit(problem: EnvironmentProblem, environment: Any) -> int:
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    if limit is None:
        raise UserError(
            f"problem {problem.name}: its environment has no time limit; register it with "
            "gymnasium.register(…, max_episode_steps=N) and make it with gymnasium.make."
        )
    return int(limit)


class TableEnvironments:
    """A deterministic environment with few states as a table, for all clients at once.

    The table is filled by stepping the real environment from every state that can be reached.
    """

    features: Float32Array | None

    def __init__(self, problem: EnvironmentProblem, clients: int) -> None:
        environment = problem.environment()
        if problem.snapshot is None or problem.place is None:
            raise ValueError(f"problem {problem.name} cannot be tabulated: no snapshot or place")
        environment.reset(seed=0)
        states = [tuple(int(x) for x in problem.snapshot(environment))]
        observations = [self._observation(environment.reset(seed=0)[0])]
        actions = int(environment.action_space.n)
        after: list[list[int]] = []
        rewards: list[list[AnyArray]] = []
        ends: list[list[bool]] = []
        for state in states:  # grows while it is walked
            after.append([])
            rewards.append([])
            ends.append([])
            for action in range(actions):
                environment.reset(seed=0)
                problem.place(environment, state)
                observation, reward, terminated, _, _ = environment.step(action)
                reached = tuple(int(x) for x in problem.snapshot(environment))
                if not terminated and reached not in states:
                    states.append(reached)
                    observations.append(self._observation(observation))
                after[-1].append(0 if terminated else states.index(reached))
                rewards[-1].append(np.asarray(reward, dtype=np.float64))
                ends[-1].append(bool(terminated))
        self.features = np.stack(observations)
        self._after = np.array(after, dtype=np.int64)
        self._reward: FloatArray = np.array(rewards, dtype=np.float64).round(6)
        self._end = np.array(ends)
        self._cap = _time_limit(problem, environment)
        self._at = np.zeros(clients, dtype=np.int64)
        self._elapsed = np.zeros(clients, dtype=np.int64)

    @staticmethod
    def _observation(observation: AnyArray) -> Float32Array:
        return np.asarray(observation, dtype=np.float32).reshape(-1)

    def observe(self, rows: IntArray) -> AnyArray:
        return self._at[rows]

    def step(self, rows: IntArray, actions: AnyArray) -> Step:
        at = self._at[rows]
        after, terminated = self._after[at, actions], self._end[at, actions]
        elapsed = self._elapsed[rows] + 1
        truncated = ~terminated & (elapsed >= self._cap)
        done = terminated | truncated
        self._at[rows] = np.where(done, 0, after)
        self._elapsed[rows] = np.where(done, 0, elapsed)
        return Step(self._reward[at, actions], after, terminated, truncated)

    def evaluate(
        self, rows: IntArray, policy: Policy, episodes: int, purpose: str
    ) -> tuple[FloatArray, IntArray]:
        """Evaluate one episode per client, as nothing is random.

        A deterministic policy that comes back to a state stays in that loop until the time limit,
        so its remaining steps need not be taken, and are not counted as taken.
        """
        n, count = len(rows), len(self._after)
        choice = policy(np.broadcast_to(np.arange(count), (n, count)))
        at, every = np.zeros(n, dtype=np.int64), np.arange(n)
        total = np.zeros((n, self._reward.shape[2]))
        running, looping = np.ones(n, dtype=bool), np.zeros(n, dtype=bool)
        visited = np.zeros((n, count), dtype=bool)
        steps = np.zeros(n, dtype=np.int64)
        for _ in range(self._cap):
            looping |= visited[every, at]
            visited[every, at] = True
            steps += running & ~looping
            action = choice[every, at]
            total += np.where(running[:, None], self._reward[at, action], 0.0)
            running &= ~self._end[at, action]
            if not running.any():
                break
            at = self._after[at, action]
        return total, steps

    def state(self) -> NamedArrays:
        return {"at": self._at.copy(), "elapsed": self._elapsed.copy()}

    def load(self, state: NamedArrays) -> None:
        self._at, self._elapsed = state["at"].copy(), state["elapsed"].copy()


class GymEnvironments:
    """One gymnasium environment per client."""

    features: Float32Array | None = None

    def __init__(self, problem: EnvironmentProblem, clients: Sequence[int], seed: int) -> None:
        self._problem, self._clients, self._seed = problem, tuple(clients), seed
        self._environments = [problem.environment() for _ in clients]
        self._cap = _time_limit(problem, self._environments[0])
        self._spare: list[Any] = []
        self._episode = np.zeros(len(clients), dtype=np.int64)
        self._elapsed = np.zeros(len(clients), dtype=np.int64)
        self._shape: tuple[int, ...] = self._environments[0].action_space.shape
        self._taken: AnyArray = np.zeros(
            (len(clients), self._cap, *self._shape), dtype=np.float32 if self._shape else np.int64
        )
        self._observation = [self._reset(row) for row in range(len(clients))]

    def _reset(self, row: int) -> Float32Array:
        keys = (self._clients[row], int(self._episode[row]))
        episode = int(stream(self._seed, "episode", *keys).integers(2**31))
        self._elapsed[row] = 0
        return self._vector(self._environments[row].reset(seed=episode)[0])

    def _play(self, row: int, action: Any) -> tuple[Any, bool, bool]:
        """Take and record one step of one client; return reward, terminated and truncated."""
        self._taken[row, self._elapsed[row]] = action
        self._elapsed[row] += 1
        observation, reward, terminated, truncated, _ = self._environments[row].step(action)
        self._observation[row] = self._vector(observation)
        return reward, bool(terminated), bool(truncated)

    def _plain(self, actions: AnyArray) -> list[Any]:
        """Return actions as environments take them: whole numbers, or vectors of float32."""
        return list(actions.astype(np.float32)) if self._shape else actions.tolist()

    @staticmethod
    def _vector(observation: AnyArray) -> Float32Array:
        return np.asarray(observation, dtype=np.float32).reshape(-1)

    def observe(self, rows: IntArray) -> AnyArray:
        return np.stack([self._observation[row] for row in rows])

    def step(self, rows: IntArray, actions: AnyArray) -> Step:
        rewards, after, ends, cuts = [], [], [], []
        for row, action in zip(rows.tolist(), self._plain(actions), strict=True):
            reward, terminated, truncated = self._play(row, action)
            rewards.append(np.asarray(reward, dtype=np.float64))
            after.append(self._observation[row])
            ends.append(terminated)
            cuts.append(truncated and not terminated)
            if terminated or truncated:
                self._episode[row] += 1
                self._observation[row] = self._reset(row)
        return Step(np.stack(rewards), np.stack(after), np.array(ends), np.array(cuts))

    def evaluate(
        self, rows: IntArray, policy: Policy, episodes: int, purpose: str
    ) -> tuple[FloatArray, IntArray]:
        while len(self._spare) < len(rows) * episodes:
            self._spare.append(self._problem.environment())
        runs = [
            _Episode(
                self._spare[index * episodes + number],
                int(stream(self._seed, purpose, self._clients[row], number).integers(2**31)),
                self._problem.snapshot,
                self._cap,
                len(self._problem.objectives),
            )
            for index, row in enumerate(rows.tolist())
            for number in range(episodes)
        ]
        while any(not run.done for run in runs):
            observations = np.stack([run.observation for run in runs])
            actions = policy(observations.reshape(len(rows), episodes, -1)).reshape(
                -1, *self._shape
            )
            for run, action in zip(runs, self._plain(actions), strict=True):
                if not run.done:
                    run.step(action)
        returns = np.stack([run.total for run in runs]).reshape(len(rows), episodes, -1)
        steps = np.array([run.steps for run in runs]).reshape(len(rows), episodes)
        return returns.mean(axis=1), steps.sum(axis=1)

    def state(self) -> NamedArrays:
        longest = int(self._elapsed.max(initial=0))
        return {
            "episode": self._episode.copy(),
            "elapsed": self._elapsed.copy(),
            "taken": self._taken[:, :longest].copy(),
        }

    def load(self, state: NamedArrays) -> None:
        """Replay each client's running episode from its seed and actions."""
        self._episode = state["episode"].copy()
        for row, (actions, count) in enumerate(zip(state["taken"], state["elapsed"], strict=True)):
            self._observation[row] = self._reset(row)
            for action in self._plain(actions[:count]):
                self._play(row, action)


class _Episode:
    """One evaluation episode; in a deterministic simulator it ends once a state repeats."""

    def __init__(
        self,
        environment: Any,
        seed: int,
        snapshot: Callable[[Any], tuple[float, ...]] | None,
        cap: int,
        objectives: int,
    ) -> None:
        self._environment, self._snapshot, self._cap = environment, snapshot, cap
        self.observation = GymEnvironments._vector(environment.reset(seed=seed)[0])
        self.total = np.zeros(objectives)
        self.steps = 0
        self.done = False
        self._rewards: list[FloatArray] = []
        self._visited: dict[tuple[float, ...], int] = {}

    def step(self, action: Any) -> None:
        if self._snapshot is not None:
            first = self._visited.setdefault(self._snapshot(self._environment), self.steps)
            if first < self.steps:  # the same loop until the time limit
                loop = np.array(self._rewards[first:])
                left = self._cap - self.steps
                self.total += loop.sum(axis=0) * (left // len(loop))
                self.total += loop[: left % len(loop)].sum(axis=0)
                self.done = True
                return
        observation, reward, terminated, truncated, _ = self._environment.step(action)
        self.observation = GymEnvironments._vector(observation)
        self._rewards.append(np.asarray(reward, dtype=np.float64))
        self.total += self._rewards[-1]
        self.steps += 1
        self.done = bool(terminated or truncated)


def idle_returns(
    problem: EnvironmentProblem, clients: Sequence[int], seed: int, episodes: int
) -> FloatArray:
    """Return what doing nothing brings each client on its test episodes: the trivial baseline.

    Args:
        problem: Problem with the environments.
        clients: Numbers of the clients.
        seed: Seed of the run.
        episodes: Test episodes per client.
    """
    shape = problem.environment().action_space.shape

    def policy(observations: AnyArray) -> AnyArray:
        return np.full((*observations.shape[:2], *shape), problem.idle_action)

    rows = np.arange(len(clients))
    return environments(problem, clients, seed).evaluate(rows, policy, episodes, "test")[0]
