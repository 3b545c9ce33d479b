"""Deep Q-learning (Mnih et al., 2015) for all clients of a fleet at once.

The update is stable-baselines3's: Huber loss on r + gamma (1 - terminated) max_a Q_target, one
Adam step with the gradient clipped to norm 10 *for each client*, a hard target copy every so many
environment steps. Where states are tabulated, networks run once on all states instead of once a
sample, on the states that occur: the same mathematics with fewer rows.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from comity.core.fleet import Fleet, forward
from comity.core.phases import ClientModel, Phase
from comity.core.typing import AnyArray, FloatArray, IntArray, Tree
from comity.errors import UserError
from comity.learners.off_policy import (
    Explorer,
    Generators,
    OffPolicy,
    OffPolicySettings,
    ReplayCohort,
)
from comity.problems.environments import EnvironmentProblem
from comity.problems.networks import ActorCritic
from comity.problems.simulators import Policy
from comity.settings import setting


class DQNSettings(OffPolicySettings):
    """Settings of deep Q-learning; each problem brings its own defaults."""

    target_update_interval: int = setting(500, "steps between target copies", at_least=1)
    exploration_fraction: float = setting(0.1, "share of all steps to lower epsilon", above=0)
    exploration_final: float = setting(0.05, "epsilon after that", at_least=0, at_most=1)
    max_grad_norm: float = setting(10.0, "norm to which a client's gradient is clipped", above=0)


class DQN(OffPolicy):
    """See the module's docstring."""

    settings: DQNSettings

    def __init__(
        self,
        problem: EnvironmentProblem,
        settings: DQNSettings,
        clients: tuple[int, ...],
        preferences: FloatArray,
        seed: int,
        fleet: Fleet,
        setup: ClientModel,
    ) -> None:
        super().__init__(problem, settings, clients, preferences, seed, fleet)
        self._forward = forward(setup.module)
        self._actions = int(problem.environment().action_space.n)
        features = self._environments.features
        self._features = None if features is None else torch.from_numpy(features)

    @classmethod
    def check(cls, problem: EnvironmentProblem) -> None:
        if isinstance(problem.model(), ActorCritic):
            raise UserError(
                f"problem {problem.name}: its actions are continuous, so deep Q-learning cannot "
                'learn it; give the problem learner="ddpg".'
            )

    def _explorer(self, crew: ReplayCohort, generators: Generators) -> Explorer:
        """Epsilon-greedily; epsilon falls over all steps of the run, not over a round."""
        s, rows = self.settings, crew.rows
        coin = np.stack([generator.random(s.train_freq) for generator in generators])
        draws = [generator.integers(self._actions, size=s.train_freq) for generator in generators]
        chance = np.stack(draws).astype(np.int16)
        table = None
        if self._features is not None:
            table = self._best(crew.online, self._everything(len(rows))).astype(np.int16)

        def choose(number: int, before: AnyArray) -> tuple[AnyArray, AnyArray]:
            greedy: AnyArray
            if table is not None:
                greedy = table[np.arange(len(rows)), before]
            else:
                greedy = self._best(crew.online, torch.from_numpy(before[:, None]))[:, 0]
            steps = self._steps[rows]
            decline = np.minimum(steps / (s.exploration_fraction * s.total_steps), 1.0)
            epsilon = 1.0 + (s.exploration_final - 1.0) * decline
            random = (steps < s.learning_starts) | (coin[:, number] < epsilon)
            action = np.where(random, chance[:, number], greedy).astype(np.int16)
            return action, action

        return choose

    @torch.no_grad()
    def _rollout(self, crew: ReplayCohort, generators: Generators) -> None:
        super()._rollout(crew, generators)
        s, steps = self.settings, self._steps[crew.rows]
        interval = s.target_update_interval
        due = steps // interval > (steps - s.train_freq) // interval
        if due.any():
            index = torch.from_numpy(np.flatnonzero(due))
            for name, tensor in crew.target.tensors.items():
                tensor[index] = crew.online[name][index]
            crew.next_values = None

    @torch.no_grad()
    def _prepare(self, crew: ReplayCohort, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """r + gamma (1 - terminated) max_a Q_target of the states reached.

        Neither buffers nor target networks change between updates: one pass serves all.
        """
        after = self._next_values(crew, batch["after"])
        wanted = batch["reward"] + self.settings.gamma * after * ~batch["terminated"]
        return {"before": batch["before"], "action": batch["action"], "wanted": wanted}

    def _update(self, crew: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        before, action = batch["before"], batch["action"].long()
        if self._features is not None:
            states, place = torch.unique(before, return_inverse=True)
            values = self._forward(crew.online, self._everything(len(crew.rows), states.long()))
            chosen = values.flatten(1).gather(1, place * self._actions + action)
        else:
            values = self._forward(crew.online, before)
            chosen = values.gather(2, action.unsqueeze(2)).squeeze(2)
        loss = F.smooth_l1_loss(chosen, batch["wanted"], reduction="none").mean(dim=1).sum()
        self._descend(crew, phase, loss, limit=self.settings.max_grad_norm)

    def _next_values(self, crew: ReplayCohort, after: Tensor) -> Tensor:
        """max_a Q_target of the states reached."""
        if self._features is None:
            return self._forward(crew.target.tensors, after).amax(dim=2)
        if crew.next_values is None:  # they change only with the target networks
            everything = self._everything(len(crew.rows))
            crew.next_values = self._forward(crew.target.tensors, everything).amax(dim=2)
        return crew.next_values.gather(1, after.long())

    def _everything(self, clients: int, states: Tensor | None = None) -> Tensor:
        """The observations of all (or some) tabulated states, for each client."""
        assert self._features is not None
        features = self._features if states is None else self._features[states]
        return features.expand(clients, *features.shape)

    @torch.no_grad()
    def _best(self, tensors: Tree, observations: Tensor) -> IntArray:
        """Greedy actions (clients, batch)."""
        return np.asarray(self._forward(tensors, observations).argmax(dim=2).numpy())

    def _policy(self, tensors: Tree) -> Policy:
        def policy(observations: AnyArray) -> AnyArray:
            if self._features is not None:
                return self._best(tensors, self._everything(len(observations)))
            return self._best(tensors, torch.from_numpy(observations))

        return policy
