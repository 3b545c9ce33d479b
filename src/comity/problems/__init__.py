"""Problems: what federations learn."""

from comity.problems.base import Objective, Problem
from comity.problems.data import DataProblem, Samples
from comity.problems.environments import EnvironmentProblem
from comity.problems.registry import (
    check_rows,
    find,
    named,
    plain_problem,
    problems,
    register,
    resolved,
)
from comity.problems.without_rows import without_rows

__all__ = [
    "DataProblem",
    "EnvironmentProblem",
    "Objective",
    "Problem",
    "Samples",
    "check_rows",
    "find",
    "named",
    "plain_problem",
    "problems",
    "register",
    "resolved",
    "without_rows",
]
