"""Problems: what federations learn."""

from comity.problems import morl
from comity.problems.problem import Objective, Problem, find, problems, register

__all__ = ["Objective", "Problem", "find", "morl", "problems", "register"]
