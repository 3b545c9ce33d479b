"""New rows for the models of a run: read, encoded and scaled as in training, without the data."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from comity.core.typing import IntArray
from comity.datasets.columns import Source, read_columns
from comity.errors import UserError
from comity.problems import DataProblem
from comity.runs.directory import Run


class NewRows(NamedTuple):
    """Rows of a file as the models of a run take them."""

    inputs: Tensor
    """Rows x inputs, scaled as in training."""
    label: IntArray | None
    """1 for yes, 0 for no; None if the file has no label."""
    sensitive: dict[str, IntArray]
    """Group of each row, an index into ``attribute_values``; of attributes that the file has."""
    attribute_values: dict[str, tuple[str, ...]]
    """Names of the groups, by attribute."""


def read_rows(run: Run, source: Source) -> NewRows:
    """Return the rows of a file, and so far as it has them their labels and attribute values.

    Args:
        run: A finished run of a problem on a table.
        source: A CSV file, a mapping of columns or a data frame.
    """
    problem = table_problem_of(run)
    rows = problem.rows(read_columns(source, "data", problem.reading()))
    inputs = problem.prepared(torch.from_numpy(rows.inputs))
    return NewRows(inputs, rows.label, rows.sensitive, rows.attribute_values)


def read_inputs(run: Run, source: Source) -> Tensor:
    """Return the rows of a file as inputs; label and attributes are not looked at.

    Args:
        run: A finished run of a problem on a table.
        source: A CSV file, a mapping of columns or a data frame.
    """
    problem = table_problem_of(run)
    return problem.inputs_of(read_columns(source, "data", problem.reading()))


def table_problem_of(run: Run) -> DataProblem:
    """Return the problem of a run, if its clients have data."""
    problem = run.configuration.get_problem()
    if not isinstance(problem, DataProblem):
        raise UserError(
            f"problem {problem.name} has environments, so rows of a file mean nothing to its "
            "models; use run.model from Python, or export the model."
        )
    return problem
