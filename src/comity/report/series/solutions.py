"""Objective vectors of all models of a comparison, whatever front they are on."""

from __future__ import annotations

import numpy as np

from comity.core.typing import FloatArray
from comity.report.series.curves import objectives_of
from comity.report.series.learning import Runs
from comity.searches.comparison import SearchComparison

Solutions = dict[str, dict[str, FloatArray]]
"""Points by entry and, within it, by preference distribution (searches have none: "")."""


def solutions_of_runs(runs: Runs) -> Solutions:
    """Return the models that all seeds' clients hand over."""
    sets: Solutions = {}
    for (entry, kind), seeds in runs.items():
        if seeds:
            points = np.concatenate([objectives_of(run) for run in seeds])
            sets.setdefault(entry, {})[kind] = points[np.isfinite(points).all(axis=1)]
    return sets


def solutions_of_searches(comparison: SearchComparison) -> Solutions:
    """Return the models on the fronts of all seeds' searches."""
    return {
        entry: {"": np.concatenate([search.front.vectors for search in seeds])}
        for entry, seeds in comparison.searches.items()
        if seeds
    }
