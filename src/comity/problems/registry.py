"""All problems by name, and how a problem is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from comity.core.importing import imported, is_reference
from comity.errors import UserError, unknown
from comity.problems import (
    fairness,
    hospitals,
    images,
    landsat,
    morl,
    multitask,
    own_table,
    praffl,
    schema,
    schema_pictures,
)
from comity.problems.base import Problem
from comity.problems.own_rows import RowsReport

_REGISTRY: dict[str, Problem] = {
    problem.name: problem
    for family in (fairness, hospitals, multitask, images, landsat, morl, praffl)
    for problem in family.PROBLEMS
}


def register(problem: Problem) -> Problem:
    """Make a problem known by its name, and return it."""
    _REGISTRY[problem.name] = problem
    return problem


def named(problem: str | Problem | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Register a problem that is given as an object, and return its name.

    Args:
        problem: A problem; its name or a mapping that describes it is returned as it is.
    """
    return register(problem).name if isinstance(problem, Problem) else problem


def plain_problem(problem: str | Problem | Mapping[str, Any]) -> str | dict[str, Any]:
    """Return a problem as a plan has it: its name, or a mapping with all defaults.

    Args:
        problem: A problem, which is registered, its name, or a mapping that describes it.
    """
    name = named(problem)
    return resolved(name) if isinstance(name, Mapping) else name


def problems() -> dict[str, Problem]:
    """Return all registered problems by name."""
    return dict(_REGISTRY)


def find(name: str | Mapping[str, Any]) -> Problem:
    """Return a problem.

    Args:
        name: Name of a registered problem, ``module:attribute`` of your own, or a mapping that
            describes your own data (see ``Description`` in `comity.problems.own_table`,
            `comity.problems.schema` and `comity.problems.schema_pictures`).
    """
    if not isinstance(name, str | Mapping):
        raise UserError(f"problem = {name!r}: must be a name or a table that describes your data.")
    if not isinstance(name, str):
        return _kind(name).described(name)
    if is_reference(name):
        return _imported(name)
    if "@" in name and name not in _REGISTRY:
        raise UserError(
            f"problem '{name}' is of datasets that have not been given in this process, or that "
            "have changed: the part after @ is their fingerprint. Call comity.from_datasets with "
            "the same ones first."
        )
    if name not in _REGISTRY:
        raise unknown("problem", name, _REGISTRY)
    return _REGISTRY[name]


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping that describes a problem with all that decides a run's bits.

    Args:
        values: The ``[problem]`` table of a configuration. Defaults, whole paths and checksums are
            filled in.
    """
    return _kind(values).resolved(values)


def check_rows(values: Mapping[str, Any], path: str | Path) -> RowsReport:
    """Return how a file of rows fits a public schema; nothing is written or sent.

    Args:
        values: The ``[problem]`` table, with a ``kind``; its ``rows`` are not looked at.
        path: The rows: a CSV file, or pictures.
    """
    check = _kind(values).check_rows
    if check is None:
        raise UserError(
            f"problem.kind is missing: rows are checked against a public schema, which is of kind "
            f"{' or '.join(_KINDS)}."
        )
    return check(values, path)


class _Kind(NamedTuple):
    """Functions of a description: the problem, the description filled in, and a check of rows."""

    described: Callable[[Mapping[str, Any]], Problem]
    resolved: Callable[[Mapping[str, Any]], dict[str, Any]]
    check_rows: Callable[[Mapping[str, Any], str | Path], RowsReport] | None = None


_OWN_TABLE = _Kind(own_table.described, own_table.resolved)
_KINDS = {
    "table": _Kind(schema.described, schema.resolved, schema.check_rows),
    "pictures": _Kind(
        schema_pictures.described, schema_pictures.resolved, schema_pictures.check_rows
    ),
}
"""Problems with a public schema, by the kind that a description names."""


def _kind(values: Mapping[str, Any]) -> _Kind:
    """Return the functions for a description."""
    if "kind" not in values:
        return _OWN_TABLE
    if not isinstance(values["kind"], str) or values["kind"] not in _KINDS:
        raise unknown("problem.kind", values["kind"], _KINDS)
    return _KINDS[values["kind"]]


def _imported(name: str) -> Problem:
    """Return the problem ``module:attribute``, also of a module in the working directory."""
    problem = imported("problem", name)
    if not isinstance(problem, Problem):
        raise UserError(f"problem '{name}' is a {type(problem).__name__}, not a comity.Problem.")
    return problem
