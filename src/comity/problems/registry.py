"""All problems by name, and how a problem is found."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from comity.errors import UserError, unknown
from comity.problems import fairness, images, morl, multitask, praffl
from comity.problems.base import Problem
from comity.problems.own_table import described

_REGISTRY: dict[str, Problem] = {
    problem.name: problem
    for family in (fairness, multitask, images, morl, praffl)
    for problem in family.PROBLEMS
}


def register(problem: Problem) -> Problem:
    """Make a problem known by its name, and return it."""
    _REGISTRY[problem.name] = problem
    return problem


def problems() -> dict[str, Problem]:
    """Return all registered problems by name."""
    return dict(_REGISTRY)


def find(name: str | Mapping[str, Any]) -> Problem:
    """Return a problem.

    Args:
        name: Name of a registered problem, ``module:attribute`` of your own, or a mapping that
            describes your own table (see `comity.problems.own_table.Description`).
    """
    if not isinstance(name, str | Mapping):
        raise UserError(f"problem = {name!r}: must be a name or a table that describes your data.")
    if not isinstance(name, str):
        return described(name)
    if ":" in name:
        return _imported(name)
    if name not in _REGISTRY:
        raise unknown("problem", name, _REGISTRY)
    return _REGISTRY[name]


def _imported(name: str) -> Problem:
    """Return the problem ``module:attribute``, also of a module in the working directory."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        problem = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"problem '{name}': {error}.") from None
    if not isinstance(problem, Problem):
        raise UserError(f"problem '{name}' is a {type(problem).__name__}, not a comity.Problem.")
    return problem
