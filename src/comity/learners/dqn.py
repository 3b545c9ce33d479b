"""Deep Q-learning (Mnih et al., 2015) for all clients of a fleet at once.

The update is stable-baselines3's: Huber loss on r + gamma (1 - terminated) max_a Q_target, one
Adam step with the gradient clipped to norm 10 *for each client*, a hard target copy every
``target_update_interval`` environment steps. Where states are tabulated, networks run once per
state that occurs instead of once per sample: the same mathematics with fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from comity.core.phases import Phase
from comity.core.running import forward
from comity.core.typing import AnyArray, IntArray, Tree
from comity.errors import UserError
from comity.learners.base import LearnerContext
from comity.learners.off_policy import (
    Explorer,
    Generators,
    OffPolicy,
    OffPolicySettings,
    ReplayCohort,
)
from comity.problems.base import Problem
from comity.problems.networks import ActorCritic
from comity.problems.simulators import Policy
from comity.settings import setting


class DQNSettings(OffPolicySettings):
    """Settings of deep Q-learning; each problem has its own defaults."""

    target_update_interval: int = setting(500, "steps between target copies", at_least=1)
    exploration_fraction: float = setting(0.1, "share of all steps to lower epsilon", above=0)
    exploration_final: float = setting(0.05, "epsilon after that", at_least=0, at_most=1)
    max_grad_norm: float = setting(10.0, "norm to which a client's gradient is clipped", above=0)


class DQN(OffPolicy):
    """Deep Q-learning, described in the module's docstring."""

    settings: DQNSettings

    def __init__(self, context: LearnerContext) -> None:
        super().__init__(context)
        self._forward = forward(context.client_model.module)
        self._actions = int(self._action_space.n)
        features = self._environments.features
        self._features = None if features is None else torch.as_tensor(features)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Raise a `UserError` if the problem's actions are continuous."""
        if isinstance(problem.model(), ActorCritic):
            raise UserError(
                f"problem {problem.name}: its actions are continuous, so deep Q-learning cannot "
                'learn it; give the problem learner="ddpg".'
            )

    def _explorer(self, cohort: ReplayCohort, generators: Generators) -> Explorer:
        """Return an epsilon-greedy explorer; epsilon falls over all steps of the run."""
        s, rows = self.settings, cohort.rows
        coins = np.stack([generator.random(s.train_freq) for generator in generators])
        draws = [generator.integers(self._actions, size=s.train_freq) for generator in generators]
        random_actions = np.stack(draws).astype(np.int16)
        best = self._best(cohort)

        def choose(number: int, before: AnyArray) -> tuple[AnyArray, AnyArray]:
            greedy = best(before)
            steps = self._steps[rows]
            decline = np.minimum(steps / (s.exploration_fraction * s.total_steps), 1.0)
            epsilon = 1.0 + (s.exploration_final - 1.0) * decline
            random = (steps < s.learning_starts) | (coins[:, number] < epsilon)
            action = np.where(random, random_actions[:, number], greedy).astype(np.int16)
            return action, action

        return choose

    def _best(self, cohort: ReplayCohort) -> Callable[[AnyArray], AnyArray]:
        """Return a function from what each client sees to its action of largest value."""
        if self._features is None:
            return lambda before: self._greedy(cohort.online, torch.as_tensor(before[:, None]))[
                :, 0
            ]
        states = self._observations(len(cohort.rows))
        table = self._greedy(cohort.online, states).astype(np.int16)
        return lambda before: table[np.arange(len(table)), before]

    @torch.no_grad()
    def _rollout(self, cohort: ReplayCohort, generators: Generators) -> None:
        """Take one rollout, then copy the models to the target networks where it is due."""
        super()._rollout(cohort, generators)
        s, steps = self.settings, self._steps[cohort.rows]
        interval = s.target_update_interval
        due = steps // interval > (steps - s.train_freq) // interval
        if due.any():
            index = torch.as_tensor(np.flatnonzero(due))
            for name, tensor in cohort.target.tensors.items():
                tensor[index] = cohort.online[name][index]
            cohort.next_values = None

    @torch.no_grad()
    def _prepare(self, cohort: ReplayCohort, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return transitions with target values r + gamma (1 - terminated) max_a Q_target(s', a).

        Neither buffers nor target networks change between updates: one pass serves all.
        """
        after = self._next_values(cohort, batch["after"])
        target = batch["reward"] + self.settings.gamma * after * ~batch["terminated"]
        return {"before": batch["before"], "action": batch["action"], "target": target}

    def _update(self, cohort: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        """Take one step on the Huber loss, with each client's gradient clipped."""
        before, action = batch["before"], batch["action"].long()
        if self._features is not None:
            states, place = torch.unique(before, return_inverse=True)
            values = self._forward(
                cohort.online, self._observations(len(cohort.rows), states.long())
            )
            chosen = values.flatten(1).gather(1, place * self._actions + action)
        else:
            values = self._forward(cohort.online, before)
            chosen = values.gather(2, action.unsqueeze(2)).squeeze(2)
        loss = F.smooth_l1_loss(chosen, batch["target"], reduction="none").mean(dim=1).sum()
        self._descend(cohort, phase, loss, limit=self.settings.max_grad_norm)

    def _next_values(self, cohort: ReplayCohort, after: Tensor) -> Tensor:
        """Return max_a Q_target(s', a) of the states reached (clients, batch)."""
        if self._features is None:
            return self._forward(cohort.target.tensors, after).amax(dim=2)
        if cohort.next_values is None:  # they change only with the target networks
            states = self._observations(len(cohort.rows))
            cohort.next_values = self._forward(cohort.target.tensors, states).amax(dim=2)
        return cohort.next_values.gather(1, after.long())

    def _observations(self, clients: int, states: Tensor | None = None) -> Tensor:
        """Return the observations of all (or some) tabulated states, for each client."""
        assert self._features is not None
        features = self._features if states is None else self._features[states]
        return features.expand(clients, *features.shape)

    @torch.no_grad()
    def _greedy(self, tensors: Tree, observations: Tensor) -> IntArray:
        """Return the actions of largest value (clients, batch)."""
        return np.asarray(self._forward(tensors, observations).argmax(dim=2).numpy(force=True))

    def _policy(self, tensors: Tree) -> Policy:
        """Return the greedy policy."""

        def policy(observations: AnyArray) -> AnyArray:
            if self._features is not None:
                return self._greedy(tensors, self._observations(len(observations)))
            return self._greedy(tensors, torch.as_tensor(observations))

        return policy
