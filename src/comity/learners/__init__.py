"""Learners: local training of the clients of a fleet."""

from comity.learners.base import Learner, LearnerContext, LearnerSettings, Task
from comity.learners.conditioned import Conditioned
from comity.learners.ddpg import DDPG, DDPGSettings
from comity.learners.dqn import DQN, DQNSettings
from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings

LEARNERS: dict[str, tuple[type[Learner], type[LearnerSettings]]] = {
    "dqn": (DQN, DQNSettings),
    "ddpg": (DDPG, DDPGSettings),
    "supervised": (Supervised, SupervisedSettings),
}
"""Learner class and its settings class, by the name in `Problem.learner`."""

CONDITIONED: dict[str, type[Learner]] = {"dqn": Conditioned, "supervised": Supervised}
"""Learner class of networks that take a preference, likewise; its settings are the same."""

__all__ = [
    "CONDITIONED",
    "DDPG",
    "DQN",
    "LEARNERS",
    "Conditioned",
    "DDPGSettings",
    "DQNSettings",
    "Learner",
    "LearnerContext",
    "LearnerSettings",
    "Supervised",
    "SupervisedSettings",
    "Task",
]
