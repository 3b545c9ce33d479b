"""Deep deterministic policy gradient (Lillicrap et al., 2016) for all clients of a fleet at once.

The update is stable-baselines3's: the critic steps on the squared error to r + gamma
(1 - terminated) Q_target(s', actor_target(s')), then the actor steps up the new critic, then both
targets follow by ``tau``. Actor and critic travel as one model; inside, actions run from -1 to 1.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from comity.core.fleet import Fleet
from comity.core.phases import ClientModel, Phase
from comity.core.typing import AnyArray, FloatArray, Tree
from comity.errors import UserError
from comity.learners.deterministic import ACTOR, CRITIC, PolicyGradient
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


class DDPGSettings(OffPolicySettings):
    """Settings of DDPG; each problem brings its own defaults."""

    batch_size: int = setting(100, "transitions in one update", at_least=1)
    buffer_size: int = setting(200_000, "transitions a client remembers", at_least=1)
    learning_starts: int = setting(100, "random steps before the first update", at_least=0)
    gamma: float = setting(0.98, "discount factor", at_least=0, at_most=1)
    train_freq: int = setting(1, "environment steps between trainings", at_least=1)
    gradient_steps: int = setting(1, "updates a training; -1: one a step", at_least=-1)
    tau: float = setting(0.005, "how far targets follow in one update", above=0, at_most=1)
    noise: float = setting(
        0.1, "spread of the exploration noise on actions between -1 and 1", at_least=0
    )


class DDPG(OffPolicy):
    """See the module's docstring."""

    settings: DDPGSettings
    parts = (CRITIC, ACTOR)

    def __init__(
        self,
        problem: EnvironmentProblem,
        settings: DDPGSettings,
        clients: tuple[int, ...],
        preferences: FloatArray,
        seed: int,
        fleet: Fleet,
        setup: ClientModel,
    ) -> None:
        super().__init__(problem, settings, clients, preferences, seed, fleet)
        model = setup.module
        assert isinstance(model, ActorCritic)
        self._bounded, self._width = model.bounded, len(model.low)
        self._gradient = PolicyGradient(model.actor, model.critic)

    @classmethod
    def check(cls, problem: EnvironmentProblem) -> None:
        if not isinstance(problem.model(), ActorCritic):
            raise UserError(
                f"problem {problem.name}: its actions are discrete, so DDPG cannot learn it; give "
                'the problem learner="dqn".'
            )

    def _explorer(self, crew: ReplayCohort, generators: Generators) -> Explorer:
        """The actor's own action with noise; before ``learning_starts`` any action."""
        s = self.settings
        shape = (s.train_freq, self._width)
        chance = np.stack([generator.uniform(-1.0, 1.0, shape) for generator in generators])
        noise = np.stack([generator.normal(0.0, s.noise, shape) for generator in generators])

        def choose(number: int, before: AnyArray) -> tuple[AnyArray, AnyArray]:
            seen = torch.from_numpy(before[:, None])
            own = self._gradient.act(crew.online, seen)[:, 0].numpy()
            noisy = np.clip(own + noise[:, number], -1.0, 1.0)
            random = self._steps[crew.rows] < s.learning_starts
            action = np.where(random[:, None], chance[:, number], noisy).astype(np.float32)
            return action, self._bounded(torch.from_numpy(action)).numpy()

        return choose

    def _update(self, crew: ReplayCohort, phase: Phase, batch: dict[str, Tensor]) -> None:
        wanted, before = self._wanted(crew, batch), batch["before"]
        loss = self._gradient.critic_loss(crew.online, before, batch["action"], wanted)
        self._descend(crew, phase, loss, CRITIC)
        self._descend(crew, phase, self._gradient.actor_loss(crew.online, before), ACTOR)
        with torch.no_grad():
            for name, tensor in crew.target.tensors.items():
                tensor.lerp_(crew.online[name], self.settings.tau)

    @torch.no_grad()
    def _wanted(self, crew: ReplayCohort, batch: dict[str, Tensor]) -> Tensor:
        """r + gamma (1 - terminated) Q_target(s', actor_target(s'))."""
        target, after = crew.target.tensors, batch["after"]
        value = self._gradient.value(target, after, self._gradient.act(target, after))
        return batch["reward"] + self.settings.gamma * value * ~batch["terminated"]

    def _policy(self, tensors: Tree) -> Policy:
        @torch.no_grad()
        def policy(observations: AnyArray) -> AnyArray:
            own = self._gradient.act(tensors, torch.from_numpy(observations))
            action = self._bounded(own)
            return np.asarray(action.numpy())

        return policy
