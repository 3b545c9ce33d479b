"""Problems small enough to run every algorithm many times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from comity.configuration import Configuration, configure
from comity.problems import EnvironmentProblem, Objective, find, register
from comity.problems.fairness import Network

TINY = register(
    replace(
        find("deep-sea-treasure"),
        name="tiny-treasure",
        hidden=(16, 16),
        defaults={
            "learning_rate": 4e-3,
            "batch_size": 16,
            "buffer_size": 200,
            "learning_starts": 16,
            "gamma": 0.98,
            "target_update_interval": 32,
            "train_freq": 8,
            "gradient_steps": 4,
            "local_steps": 48,
            "total_steps": 192,
        },
        search={"reference_point": [0.0, -50.0]},
    )
)


class Trolley(gymnasium.Env):
    """Two engines push a trolley along a rail; what they push costs strength."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(np.float32([-2.0, -1.0]), np.float32([2.0, 3.0]))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-1.0, 1.0), 0.0
        return self._see(), {}

    def step(self, action):
        assert action in self.action_space
        self.speed = 0.8 * self.speed + 0.1 * float(action.sum())
        self.place += self.speed
        reward = np.array([self.speed, -0.1 * float(np.square(action).sum())])
        return self._see(), reward, abs(self.place) > 5.0, False, {}

    def _see(self):
        return np.array([self.place, self.speed], dtype=np.float32)


gymnasium.register("Trolley-v0", Trolley, max_episode_steps=20)

TROLLEY = register(
    EnvironmentProblem(
        name="tiny-trolley",
        title="A trolley with two engines",
        objectives=(
            Objective("way", "m", "how far it came"),
            Objective("strength", "points", "minus the strength spent"),
        ),
        environment=lambda: gymnasium.make("Trolley-v0", disable_env_checker=True),
        reference_point=(-10.0, -30.0),
        learner="ddpg",
        hidden=(16, 16),
        defaults={
            "batch_size": 16,
            "buffer_size": 200,
            "learning_starts": 16,
            "train_freq": 4,
            "gradient_steps": 1,
            "local_steps": 48,
            "total_steps": 192,
        },
    )
)


PEOPLE = register(
    replace(
        find("german-credit-gender-dp"),
        name="tiny-people",
        network=Network((8,)),
        defaults={"batch_size": 64, "learning_rate": 1e-2, "local_steps": 3, "total_steps": 12},
    )
)


def tiny(**values: Any) -> Configuration:
    """A run of four clients and four rounds, in two chunks."""
    return configure({"problem": "tiny-treasure", "clients": 4, "chunk": 2, **values})
