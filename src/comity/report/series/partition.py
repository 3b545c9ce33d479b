"""What a run's clients have, for pictures of it; a report can be drawn without the samples."""

from __future__ import annotations

import numpy as np

from comity.core.typing import FloatArray, IntArray
from comity.errors import UserError
from comity.problems import DataProblem
from comity.runs.directory import Run


def class_counts(run: Run) -> IntArray | None:
    """Training samples of each class (clients x classes); None where labels are no classes."""
    problem = _at_hand(run)
    labels = None if problem is None else problem.columns().get("label")
    if problem is None or labels is None or labels.is_floating_point():
        return None
    found = labels.numpy()
    classes = int(found.max()) + 1
    return np.array([np.bincount(found[s.train], minlength=classes) for s in problem.shares()])


def constant_scores(run: Run) -> FloatArray | None:
    """What the constant classifier brings each client in a single objective."""
    problem = _at_hand(run)
    if problem is None:
        return None
    settings = run.configuration
    return problem.trivial(range(settings.clients), settings.seed, settings.test_episodes)[:, 0]


def _at_hand(run: Run) -> DataProblem | None:
    """The problem, where clients have samples that are still there to be read."""
    problem = run.configuration.get_problem()
    if not isinstance(problem, DataProblem):
        return None
    try:
        problem.samples()
    except UserError:
        return None
    return problem
