"""Problems as finished runs keep them: all that a model needs, and no rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from comity.datasets.schema import Column
from comity.datasets.shipped import dataset
from comity.problems.base import Problem
from comity.problems.fairness import FairnessProblem, FairnessSettings
from comity.problems.schema import SchemaProblem


def without_rows(values: str | Mapping[str, Any], problem: Problem) -> dict[str, Any] | None:
    """Return the description of a problem without its rows; None where the package has them.

    It is a ``[problem]`` table with a ``kind``: columns, categories, scales, label, attributes. Of
    a table without a public schema, categories, medians and scales are those of its rows.

    Args:
        values: Name of the problem, or the ``[problem]`` table that describes it.
        problem: The problem, with its rows distributed among clients.
    """
    if isinstance(values, Mapping) and "kind" in values:
        description = {**values, "rows": [], "sha256": []}
        if isinstance(problem, SchemaProblem):
            description |= _strict(problem)
            scales = zip(problem.schema.numbers, problem.scales(), strict=True)
            columns = values["columns"]
            description["scales"] = {
                column.name: list(scale)
                for column, scale in scales
                if columns[column.name]["scale"] == "federated"
            }
        return description
    if type(problem) is not FairnessProblem or problem.functions or _shipped(problem):
        return None
    return _learned(problem)


def _shipped(problem: FairnessProblem) -> bool:
    """Return whether the rows come with the package."""
    return isinstance(problem.table, partial) and problem.table.func is dataset


def _learned(problem: FairnessProblem) -> dict[str, Any]:
    """Return the description of what was learned from a table's rows."""
    schema = problem.schema
    scales = iter(problem.scales())
    columns = {column.name: _column(column, scales) for column in schema.inputs}
    columns[schema.label] = {"values": [schema.negative, schema.positive]}
    settings = {name: getattr(problem, name) for name in FairnessSettings.model_fields}
    return {
        "kind": "table",
        "learned": True,
        "name": problem.name,
        "title": problem.title,
        "label": schema.label,
        "positive": schema.positive,
        "metrics": list(dict.fromkeys(aim.metric for aim in problem.aims)),
        **FairnessSettings(**settings).model_dump(mode="json"),
        **_strict(problem),
        **schema.reading.model_dump(exclude_defaults=True, mode="json"),
        "columns": columns,
        "sensitive": {attribute.name: attribute.description for attribute in schema.sensitive},
    }


def _column(column: Column, scales: Any) -> dict[str, Any]:
    if column.values is not None:
        return {"values": list(column.values)}
    known = {"median": column.median, "date": column.date}
    given = {name: value for name, value in known.items() if value is not None}
    return {"type": "number", "scale": list(next(scales)), **given}


def _strict(problem: FairnessProblem) -> dict[str, Any]:
    point = problem.strict_point()
    return {} if point is None else {"strict_point": list(point)}
