"""Objective vectors of the runs of a comparison, as sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.series.curves import objectives_of
from comity.report.series.learning import Runs
from comity.runs.directory import Run

SHARED = "one weight for all clients of a run, each point their mean"
"""Title of the only set per entry where the clients of each run share their weights."""

Sets = dict[tuple[str, str], FloatArray]
"""Points by entry and preference distribution."""


def pooled_sets(runs: Runs, problem: Problem) -> Sets:
    """Return the points of all seeds' clients that count for the front, as one set."""
    return {key: _pooled(seeds, problem) for key, seeds in runs.items() if seeds}


def shared_sets(runs: Runs, problem: Problem) -> Sets:
    """Return one set per entry, whatever weights its clients share: a run's mean over clients."""
    means: dict[tuple[str, str], list[FloatArray]] = {}
    for (entry, _), seeds in runs.items():
        points = [np.nanmean(objectives_of(run), axis=0) for run in seeds]
        means.setdefault((entry, SHARED), []).extend(points)
    sets = {key: np.array(points) for key, points in means.items() if points}
    return {key: points[problem.counts(points)] for key, points in sets.items()}


def reached_sets(runs: Runs) -> Sets:
    """Return (clients of all seeds x preferences x objectives) for each entry and distribution.

    There is one preference where models take none.
    """
    return {
        key: np.concatenate([run.reached for run in seeds]) for key, seeds in runs.items() if seeds
    }


def _pooled(seeds: Sequence[Run], problem: Problem) -> FloatArray:
    points = np.concatenate([objectives_of(run) for run in seeds])
    return points[problem.counts(points)]
