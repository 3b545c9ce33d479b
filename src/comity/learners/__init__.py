"""Learners: how clients improve their models locally."""

from comity.learners.dqn import DQN, DQNSettings
from comity.learners.learner import Learner

LEARNERS = {"dqn": (DQN, DQNSettings)}
"""Learner and settings class by the name that a problem uses."""

__all__ = ["DQN", "LEARNERS", "DQNSettings", "Learner"]
