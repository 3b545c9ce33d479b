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
    """Return training samples per class (clients x classes); None where labels are no classes.

    The results of runs up to 0.6.0 do not have them; they are counted again.
    """
    if "classes" in run.results:
        return np.array(run.results["classes"])
    problem = _available_problem(run)
    counts = None if problem is None else problem.class_counts()
    return None if counts is None else np.array(counts)


def constant_scores(run: Run) -> FloatArray | None:
    """Return the score of the constant classifier in a single objective, one per client."""
    scores = [row.get("trivial") for row in run.results["per_client"]]
    if None not in scores:  # runs up to 0.6.0 do not have them
        return np.array(scores, dtype=np.float64)
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
