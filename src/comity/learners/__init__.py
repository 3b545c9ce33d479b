"""Learners: how clients improve their models locally."""

from typing import Any

from comity.learners.base import Learner, LearnerSettings, Task
from comity.learners.ddpg import DDPG, DDPGSettings
from comity.learners.dqn import DQN, DQNSettings
from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings

LEARNERS: dict[str, tuple[type[Any], type[LearnerSettings]]] = {
    "dqn": (DQN, DQNSettings),
    "ddpg": (DDPG, DDPGSettings),
    "supervised": (Supervised, SupervisedSettings),
}
"""Learner and settings class by the name that a problem uses."""

__all__ = [
    "DDPG",
    "DQN",
    "LEARNERS",
    "DDPGSettings",
    "DQNSettings",
    "Learner",
    "LearnerSettings",
    "Supervised",
    "SupervisedSettings",
    "Task",
]
