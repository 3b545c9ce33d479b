"""Grids: the values among which the papers chose settings, in ``reproductions/grids.toml``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

from comity.configuration.layers import PRESETS, PresetEntry, entries_of
from comity.errors import UserError
from comity.problems import Problem

GRIDS = PRESETS.with_name("grids.toml")


@cache
def grids() -> tuple[PresetEntry, ...]:
    """Return all grids: entries whose settings have lists of values."""
    with GRIDS.open("rb") as file:
        return entries_of(tomllib.load(file)["grid"])


def axes(grid: PresetEntry, learner: str) -> dict[str, list[Any]]:
    """Return the values of each setting of a grid, by its name in an entry of a comparison.

    Args:
        grid: The grid.
        learner: Name of the learner whose settings are among them.
    """
    names = {f"{learner}.{name}": values for name, values in grid.layer.learner.items()}
    return {**grid.layer.algorithm, **names, **grid.layer.run}


def with_grids(entries: Sequence[str], problem: Problem) -> list[str]:
    """Return entries of a comparison with all of a printed grid in place of ``NAME[grid]``.

    Args:
        entries: The entries.
        problem: What is learned.
    """
    expanded: list[str] = []
    for entry in entries:
        name = entry.removesuffix("[grid]")
        expanded += [entry] if name == entry else grid_entries(problem, name)
    return expanded


def grid_entries(problem: Problem, algorithm: str) -> list[str]:
    """Return all combinations of a printed grid as entries of a comparison.

    Args:
        problem: What is learned.
        algorithm: Name of the algorithm.

    Raises:
        UserError: no grid is printed for this algorithm on this problem.
    """
    values = printed_axes(problem, algorithm)
    if values is None:
        raise UserError(
            f"algorithms: {algorithm}[grid]: no paper prints a grid for {algorithm} on "
            f"{problem.name}; comity list grids shows those that are printed."
        )
    return [
        f"{algorithm}[{','.join(map(assignment, values, combination))}]"
        for combination in product(*values.values())
    ]


def printed_axes(problem: Problem, algorithm: str) -> dict[str, list[Any]] | None:
    """Return the values of each setting of the printed grid; None: no paper prints one.

    Args:
        problem: What is learned.
        algorithm: Name of the algorithm.
    """
    for grid in grids():
        if grid.covers(problem.name, algorithm):
            return axes(grid, problem.learner)
    return None


def assignment(name: str, value: Any) -> str:
    """Return a setting as in an entry of a comparison: a bare word or a number.

    Args:
        name: Name of the setting.
        value: Its value.
    """
    return f"{name}={value if isinstance(value, str) else json.dumps(value)}"
