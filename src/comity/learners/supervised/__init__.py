"""Supervised learning for a fleet of clients with data."""

from comity.learners.supervised.learner import Supervised
from comity.learners.supervised.settings import SupervisedSettings

__all__ = ["Supervised", "SupervisedSettings"]
