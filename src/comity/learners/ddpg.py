"""Deep deterministic policy gradient (Lillicrap et al., 2016) for all clients of a fleet at once.

The update is stable-baselines3's: the critic steps on the squared error to r + gamma
(1 - terminated) Q_target(s', actor_target(s')), then the actor steps up the new critic, then both
targets follow by ``tau``. Actor and critic travel as one model; inside it, actions lie between -1
and 1.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from comity.core.phases import Phase
from comity.core.typing import AnyArray, Tree
from comity.errors import UserError
from comity.learners.base import LearnerContext
from comity.learners.deterministic import ACTOR, CRITIC, PolicyGradient
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


class DDPGSettings(OffPolicySettings):
    """Settings of DDPG; each problem has its own defaults."""

    batch_size: int = setting(100, "transitions in one update", at_least=1)
    buffer_size: int = setting(200_000, "transitions kept per client", at_least=1)
    learning_starts: int = setting(100, "random steps before the first update", at_least=0)
    gamma: float = setting(0.98, "discount factor", at_least=0, at_most=1)
    train_freq: int = setting(1, "environment steps between trainings", at_least=1)
    gradient_steps: int = setting(1, "updates per training; -1: one per step", at_least=-1)
    tau: float = setting(0.005, "how far targets follow in one update", above=0, at_most=1)
    noise: float = setting(
        0.1, "spread of the exploration noise on actions between -1 and 1", at_least=0
    )


class DDPG(OffPolicy):
    """Deep deterministic policy gradient, described in the module's docstring."""

    settings: DDPGSettings
    parts = (CRITIC, ACTOR)

    def __init__(self, context: LearnerContext) -> None:
        super().__init__(context)
        model = context.client_model.module
        assert isinstance(model, ActorCritic)
        self._bounded, self._width = model.bounded, len(model.low)
        self._gradient = PolicyGradient(model.actor, model.critic)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Raise a `UserError` if the problem's actions are discrete."""
        if not isinstance(problem.model(), ActorCritic):
            raise UserError(
                f"problem {problem.name}: its actions are discrete, so DDPG cannot learn it; give "
                'the problem learner="dqn".'
            )

    def _explorer(self, cohort: ReplayCohort, generators: Generators) -> Explorer:
        """Return an explorer: the actor with noise; before ``learning_starts``, uniform actions."""
        s = self.settings
        shape = (s.train_freq, self._width)
        uniform = np.stack([generator.uniform(-1.0, 1.0, shape) for generator in generators])
        noise = np.stack([generator.normal(0.0, s.noise, shape) for generator in generators])

        def choose(number: int, before: AnyArray) -> tuple[AnyArray, AnyArray]:
            observation = torch.as_tensor(before[:, None])
            plain = self._gradient.act(cohort.online, observation)[:, 0].numpy(force=True)
            noisy = np.clip(plain + noise[:, number], -1.0, 1.0)
            random = self._steps[cohort.rows] < s.learning_starts
            action = np.where(random[:, None], uniform[:, number], noisy).astype(np.float32)
            return action, self._bounded(torch.as_tensor(action)).numpy(force=True)

        return choose

    def _update(self, cohort: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        """Step the critics, then the actors, then let the target networks follow."""
        target, before = self._target_values(cohort, batch), batch["before"]
        loss = self._gradient.critic_loss(cohort.online, before, batch["action"], target)
        self._descend(cohort, phase, loss, CRITIC)
        self._descend(cohort, phase, self._gradient.actor_loss(cohort.online, before), ACTOR)
        with torch.no_grad():
            for name, tensor in cohort.target.tensors.items():
                tensor.lerp_(cohort.online[name], self.settings.tau)

    @torch.no_grad()
    def _target_values(self, cohort: ReplayCohort, batch: dict[str, Tensor]) -> Tensor:
        """Return r + gamma (1 - terminated) Q_target(s', actor_target(s'))."""
        target, after = cohort.target.tensors, batch["after"]
        value = self._gradient.value(target, after, self._gradient.act(target, after))
        return batch["reward"] + self.settings.gamma * value * ~batch["terminated"]

    def _policy(self, tensors: Tree) -> Policy:
        """Return the actors' policy without noise, within the bounds of the environment."""

        @torch.no_grad()
        def policy(observations: AnyArray) -> AnyArray:
            action = self._gradient.act(tensors, torch.as_tensor(observations))
            return np.asarray(self._bounded(action).numpy(force=True))

        return policy
