"""Data that the clients of a run have; reports can be drawn without the samples."""

from __future__ import annotations

import numpy as np

from comity.core.typing import FloatArray, IntArray
from comity.errors import UserError
from comity.problems import DataProblem
from comity.runs.directory import Run

MOST_CLIENTS = 60
"""More clients than this have no room in a picture of who has which class."""


def class_counts(run: Run) -> IntArray | None:
    """Return training samples per class (clients x classes); None where labels are no classes."""
    problem = _available_problem(run)
    labels = None if problem is None else problem.columns().get("label")
    if problem is None or labels is None or labels.is_floating_point():
        return None
    values = labels.numpy()
    classes = int(values.max()) + 1
    return np.array(
        [np.bincount(values[s.train], minlength=classes) for s in problem.client_rows()]
    )


def constant_scores(run: Run) -> FloatArray | None:
    """Return the score of the constant classifier in a single objective, one per client."""
    problem = _available_problem(run)
    if problem is None:
        return None
    settings = run.configuration
    return problem.trivial(range(settings.clients), settings.seed, settings.test_episodes)[:, 0]


def _available_problem(run: Run) -> DataProblem | None:
    """Return the problem if its clients have samples that can still be read."""
    problem = run.configuration.get_problem()
    if not isinstance(problem, DataProblem):
        return None
    try:
        problem.samples()
    except UserError:
        return None
    return problem
