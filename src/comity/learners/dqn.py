"""Deep Q-learning (Mnih et al., 2015) for all clients of a fleet at once.

The update is stable-baselines3's: Huber loss on r + gamma (1 - terminated) max_a Q_target, one
Adam step with the gradient clipped to norm 10 *for each client*, a hard target copy every so many
environment steps. The order of things is one rollout of ``train_freq`` steps, then
``gradient_steps`` updates. Where states are tabulated, networks run once on all states instead of
once a sample, on the states that occur: the same mathematics with fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.func import vmap
from torch.optim.adam import adam

from comity.fleet import Fleet, Tree, forward
from comity.learners.learner import Rows, Values
from comity.learners.replay import Replay
from comity.local import Phase, View
from comity.problems.environments import environments
from comity.problems.problem import Problem
from comity.settings import Settings, setting
from comity.streams import stream


class DQNSettings(Settings):
    """Settings of deep Q-learning; each problem brings its own defaults."""

    learning_rate: float = setting(1e-3, "Adam's step size", above=0)
    batch_size: int = setting(64, "transitions in one update", at_least=1)
    buffer_size: int = setting(50_000, "transitions a client remembers", at_least=1)
    learning_starts: int = setting(1000, "random steps before the first update", at_least=0)
    gamma: float = setting(0.99, "discount factor", at_least=0, at_most=1)
    target_update_interval: int = setting(500, "steps between target copies", at_least=1)
    train_freq: int = setting(4, "environment steps between trainings", at_least=1)
    gradient_steps: int = setting(-1, "updates a training; -1: one a step", at_least=-1)
    exploration_fraction: float = setting(0.1, "share of all steps to lower epsilon", above=0)
    exploration_final: float = setting(0.05, "epsilon after that", at_least=0, at_most=1)
    max_grad_norm: float = setting(10.0, "norm to which a client's gradient is clipped", above=0)
    average_targets: bool = setting(False, "target networks travel and are mixed like the model")
    local_steps: int = setting(500, "environment steps a client takes in a round", at_least=1)
    total_steps: int = setting(10_000, "environment steps a client takes in all", at_least=1)


@dataclass
class _Crew:
    """The clients being trained right now, their tensors gathered into one stack."""

    rows: Rows
    online: Tree
    target: Fleet
    start: Fleet
    whole: bool
    moments: tuple[Fleet, Fleet]
    stacked: tuple[list[Tensor], list[Tensor], list[Tensor]]
    """Parameters and Adam's two moments."""
    apart: tuple[list[Tensor], list[Tensor], list[Tensor]]
    """The same client by client: views."""
    next_values: Tensor | None = None


class DQN:
    """See the module's docstring."""

    def __init__(
        self,
        problem: Problem,
        settings: DQNSettings,
        clients: tuple[int, ...],
        preferences: NDArray[np.float64],
        seed: int,
        fleet: Fleet,
    ) -> None:
        self.settings, self._clients, self._preferences = settings, clients, preferences
        self._seed = seed
        self._forward = forward(problem.model())
        self._environments = environments(problem, clients, seed)
        self._actions = int(problem.environment().action_space.n)
        features = self._environments.features
        self._features = None if features is None else torch.from_numpy(features)
        self._target = fleet.clone()
        self._first = Fleet({name: torch.zeros_like(fleet[name]) for name in fleet})
        self._second = Fleet({name: torch.zeros_like(fleet[name]) for name in fleet})
        self._updates = torch.zeros(len(clients))
        self._steps = np.zeros(len(clients), dtype=np.int64)
        sample = self._environments.observe(np.array([0]))[0]
        if self._features is not None:
            sample = sample.astype(np.int32)
        self._replay = Replay(len(clients), settings.buffer_size, sample, np.array(0, np.int16))

    @property
    def steps(self) -> Rows:
        return self._steps

    def receive(self, rows: Rows, received: Fleet) -> None:
        """Target networks restart from the received online ones, or are received themselves."""
        if self.settings.average_targets:
            received = Fleet({name: received[f"target.{name}"] for name in self._target})
        self._target.put(rows, received.group(*self._target))

    def restart(self, rows: Rows, models: Fleet) -> None:
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

    def train(
        self, fleet: Fleet, rows: Rows, phase: Phase, start: Fleet, round: int, goal: Rows
    ) -> None:
        explore = {row: stream(self._seed, "explore", round, self._clients[row]) for row in rows}
        replay = {row: stream(self._seed, "replay", round, self._clients[row]) for row in rows}
        crew: _Crew | None = None
        while True:
            active = rows[self._steps[rows] < goal]
            if crew is None or not np.array_equal(crew.rows, active):
                if crew is not None:
                    self._disband(fleet, crew)
                if not len(active):
                    return
                crew = self._gather(fleet, active, start)
            self._rollout(crew, explore)
            learning = active[self._steps[active] > self.settings.learning_starts]
            if len(learning) == len(active):
                self._learn(crew, phase, replay)
            elif len(learning):
                self._disband(fleet, crew)
                crew = self._gather(fleet, learning, start)
                self._learn(crew, phase, replay)

    def _gather(self, fleet: Fleet, rows: Rows, start: Fleet) -> _Crew:
        online = {
            name: tensor.detach().requires_grad_()
            for name, tensor in fleet.select(rows).tensors.items()
        }
        target, first, second = (
            part.select(rows) for part in (self._target, self._first, self._second)
        )
        stacked = (
            [tensor.detach() for tensor in online.values()],
            list(first.tensors.values()),
            list(second.tensors.values()),
        )
        return _Crew(
            rows=rows,
            online=online,
            target=target,
            start=start.select(rows),
            whole=len(rows) == len(fleet),
            moments=(first, second),
            stacked=stacked,
            apart=(_apart(stacked[0]), _apart(stacked[1]), _apart(stacked[2])),
        )

    def _disband(self, fleet: Fleet, crew: _Crew) -> None:
        if not crew.whole:
            fleet.put(crew.rows, Fleet({name: t.detach() for name, t in crew.online.items()}))
            self._target.put(crew.rows, crew.target)
            self._first.put(crew.rows, crew.moments[0])
            self._second.put(crew.rows, crew.moments[1])

    @torch.no_grad()
    def _rollout(self, crew: _Crew, explore: dict[int, np.random.Generator]) -> None:
        """Each client takes ``train_freq`` steps, epsilon-greedily, into its own buffer."""
        s, rows = self.settings, crew.rows
        coin = np.stack([explore[row].random(s.train_freq) for row in rows])
        draws = [explore[row].integers(self._actions, size=s.train_freq) for row in rows]
        chance = np.stack(draws).astype(np.int16)
        table = None
        if self._features is not None:
            table = self._best(crew.online, self._everything(len(rows))).astype(np.int16)
        for number in range(s.train_freq):
            before = self._environments.observe(rows)
            greedy: NDArray[Any]
            if table is not None:
                greedy = table[np.arange(len(rows)), before]
            else:
                greedy = self._best(crew.online, torch.from_numpy(before[:, None]))[:, 0]
            steps = self._steps[rows]
            decline = np.minimum(steps / (s.exploration_fraction * s.total_steps), 1.0)
            epsilon = 1.0 + (s.exploration_final - 1.0) * decline
            random = (steps < s.learning_starts) | (coin[:, number] < epsilon)
            action = np.where(random, chance[:, number], greedy).astype(np.int16)
            step = self._environments.step(rows, action)
            self._replay.add(
                rows,
                before=before,
                after=step.after,
                action=action,
                reward=(step.reward * self._preferences[rows]).sum(axis=1),
                terminated=step.terminated,
            )
            self._steps[rows] += 1
        interval = s.target_update_interval
        due = self._steps[rows] // interval > (self._steps[rows] - s.train_freq) // interval
        if due.any():
            index = torch.from_numpy(np.flatnonzero(due))
            for name, tensor in crew.target.tensors.items():
                tensor[index] = crew.online[name][index]
            crew.next_values = None

    def _learn(self, crew: _Crew, phase: Phase, replay: dict[int, np.random.Generator]) -> None:
        s = self.settings
        count = s.train_freq if s.gradient_steps == -1 else s.gradient_steps
        if not count:
            return
        draws = np.stack([replay[row].random(count * s.batch_size) for row in crew.rows])
        batch = self._replay.sample(crew.rows, draws)
        # neither buffers nor target networks change in here: one pass serves all updates
        wanted = self._wanted(crew, batch)
        for at in range(0, count * s.batch_size, s.batch_size):
            part = slice(at, at + s.batch_size)
            before, action = batch["before"][:, part], batch["action"][:, part]
            self._update(crew, phase, before, action, wanted[:, part])

    @torch.no_grad()
    def _wanted(self, crew: _Crew, batch: dict[str, Tensor]) -> Tensor:
        """r + gamma (1 - terminated) max_a Q_target of the states reached."""
        after = self._next_values(crew, batch["after"])
        return batch["reward"] + self.settings.gamma * after * ~batch["terminated"]

    def _update(
        self, crew: _Crew, phase: Phase, before: Tensor, action: Tensor, wanted: Tensor
    ) -> None:
        """One gradient step of every client of the crew."""
        action = action.long()
        if self._features is not None:
            states, place = torch.unique(before, return_inverse=True)
            values = self._forward(crew.online, self._everything(len(crew.rows), states.long()))
            chosen = values.flatten(1).gather(1, place * self._actions + action)
        else:
            values = self._forward(crew.online, before)
            chosen = values.gather(2, action.unsqueeze(2)).squeeze(2)
        loss = F.smooth_l1_loss(chosen, wanted, reduction="none").mean(dim=1).sum()
        penalty = phase.penalty
        if penalty is not None:

            def of_one(tensors: Tree, received: Tree) -> Tensor:
                return penalty(tensors, View(received))

            loss = loss + vmap(of_one)(crew.online, crew.start.tensors).sum()
        grads = torch.autograd.grad(loss, list(crew.online.values()))
        _clip(grads, self.settings.max_grad_norm)
        self._adam(crew, grads)

    def _next_values(self, crew: _Crew, after: Tensor) -> Tensor:
        """max_a Q_target of the states reached."""
        if self._features is None:
            return self._forward(crew.target.tensors, after).amax(dim=2)
        if crew.next_values is None:  # they change only with the target networks
            everything = self._everything(len(crew.rows))
            crew.next_values = self._forward(crew.target.tensors, everything).amax(dim=2)
        return crew.next_values.gather(1, after.long())

    @torch.no_grad()
    def _adam(self, crew: _Crew, grads: tuple[Tensor, ...]) -> None:
        """Clients count their own updates; as long as the counts agree, one step serves all."""
        counts = self._updates[crew.rows]
        together = bool((counts == counts[0]).all())
        online, first, second = crew.stacked if together else crew.apart
        adam(
            online,
            list(grads) if together else _apart(grads),
            first,
            second,
            [],
            list((counts[:1] if together else counts).repeat(len(grads)).unbind()),
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.settings.learning_rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )
        self._updates[crew.rows] = counts + 1

    def _everything(self, clients: int, states: Tensor | None = None) -> Tensor:
        """The observations of all (or some) tabulated states, for each client."""
        assert self._features is not None
        features = self._features if states is None else self._features[states]
        return features.expand(clients, *features.shape)

    @torch.no_grad()
    def _best(self, tensors: Tree, observations: Tensor) -> NDArray[np.int64]:
        """Greedy actions (clients, batch)."""
        return np.asarray(self._forward(tensors, observations).argmax(dim=2).numpy())

    def judge(
        self, fleet: Fleet, rows: Rows, purpose: str, episodes: int
    ) -> tuple[NDArray[np.float64], Rows]:
        tensors = fleet.select(rows).tensors

        def policy(observations: NDArray[Any]) -> NDArray[Any]:
            if self._features is not None:
                return self._best(tensors, self._everything(len(rows)))
            return self._best(tensors, torch.from_numpy(observations))

        return self._environments.judge(rows, policy, episodes, purpose)

    def state(self) -> Values:
        fleets = {"target": self._target, "first": self._first, "second": self._second}
        state: Values = {
            f"{part}.{name}": tensor.numpy()
            for part, fleet in fleets.items()
            for name, tensor in fleet.tensors.items()
        }
        state["updates"], state["steps"] = self._updates.numpy(), self._steps
        for part, values in (("replay", self._replay), ("environment", self._environments)):
            state.update({f"{part}.{name}": value for name, value in values.state().items()})
        return state

    def load(self, state: Values) -> None:
        fleets = {"target": self._target, "first": self._first, "second": self._second}
        for part, fleet in fleets.items():
            for name, tensor in fleet.tensors.items():
                tensor.copy_(torch.from_numpy(state[f"{part}.{name}"]))
        self._updates.copy_(torch.from_numpy(state["updates"]))
        self._steps = state["steps"].copy()
        for part, values in (("replay", self._replay), ("environment", self._environments)):
            prefix = f"{part}."
            values.load(
                {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            )


def _apart(tensors: Any) -> list[Tensor]:
    """Stacked tensors as one list: the first tensor of each client, then the second, …"""
    return [row for tensor in tensors for row in tensor.unbind(0)]


@torch.no_grad()
def _clip(grads: tuple[Tensor, ...], limit: float) -> None:
    """Scale each client's gradient, over all its tensors, to at most ``limit``."""
    norms = [torch.linalg.vector_norm(grad.flatten(1), dim=1) for grad in grads]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    if bool((scale == 1.0).all()):
        return
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
