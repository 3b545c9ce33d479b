"""Problems: what federations learn."""

from comity.problems import fairness, images, morl, multitask, praffl
from comity.problems.base import (
    EnvironmentProblem,
    Objective,
    Problem,
    find,
    problems,
    register,
)
from comity.problems.data import DataProblem, Samples

__all__ = [
    "DataProblem",
    "EnvironmentProblem",
    "Objective",
    "Problem",
    "Samples",
    "fairness",
    "find",
    "images",
    "morl",
    "multitask",
    "praffl",
    "problems",
    "register",
]
