"""Learners: how clients improve their models locally."""

from comity.learners.ddpg import DDPG, DDPGSettings
from comity.learners.dqn import DQN, DQNSettings
from comity.learners.learner import Learner
from comity.learners.off_policy import OffPolicy, OffPolicySettings

LEARNERS: dict[str, tuple[type[OffPolicy], type[OffPolicySettings]]] = {
    "dqn": (DQN, DQNSettings),
    "ddpg": (DDPG, DDPGSettings),
}
"""Learner and settings class by the name that a problem uses."""

__all__ = ["DDPG", "DQN", "LEARNERS", "DDPGSettings", "DQNSettings", "Learner"]
