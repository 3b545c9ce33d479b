"""Measures of a client's model on new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from comity.datasets.columns import Source
from comity.errors import UserError
from comity.problems.answers import logit_of_yes
from comity.problems.fairness import FairnessProblem
from comity.runs.directory import Run
from comity.runs.export import model_at
from comity.runs.group_schema import Measured
from comity.runs.groups import AnsweredRows, measure
from comity.runs.rows import read_rows, table_problem_of


class NewMeasures(NamedTuple):
    """Measures of a model on the rows of a file."""

    measured: Measured
    absent: tuple[str, ...]
    """Attributes of the problem that the file does not have."""


def measure_rows(
    run: Run, source: Source, client: int | str, preference: Sequence[float] | None = None
) -> NewMeasures:
    """Return the measures of a client's model on new rows, per attribute value.

    Args:
        run: A finished run on a table with sensitive attributes.
        source: A CSV file, a mapping of columns or a data frame, with inputs, label and at least
            one sensitive attribute.
        client: Number or name of the client whose model is used.
        preference: One weight per objective, for models that take any preference; default: the
            client's own.
    """
    problem, rows = table_problem_of(run), read_rows(run, source)
    known = problem.attribute_values()
    if rows.label is None:
        column = f" '{problem.schema.label}'" if isinstance(problem, FairnessProblem) else ""
        raise UserError(
            f"data: the rows have no label: add the column{column}, without which nobody knows "
            "which answers are right, or leave --report out."
        )
    if not rows.sensitive:
        listed = ", ".join(known) or f"problem {problem.name} has none"
        raise UserError(
            f"data: the rows have no sensitive attribute ({listed}): add its column, without which "
            "there are no groups to compare, or leave --report out."
        )
    with torch.inference_mode():
        logit = logit_of_yes(model_at(run, client, preference)(rows.inputs))
    if logit is None:
        raise UserError(f"problem {problem.name}: its models give no answer of yes or no.")
    answered = AnsweredRows(rows.label == 1, logit.double().numpy(), rows.sensitive)
    absent = tuple(attribute for attribute in known if attribute not in rows.sensitive)
    return NewMeasures(measure(answered, rows.attribute_values), absent)
