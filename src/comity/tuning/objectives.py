"""Objectives of a tuning: what a run reached on validation data, and what it sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import UserError, unknown
from comity.problems import Problem
from comity.runs.directory import Run
from comity.runs.results import finite
from comity.runs.tuning_schema import Direction
from comity.runs.validated import validated_vectors

MEAN, WORST, VOLUME, SENT = "mean_scalarised", "worst_scalarised", "hypervolume", "megabytes"


def directions(problem: Problem, names: Sequence[str]) -> dict[str, Direction]:
    """Return which values of each objective are better.

    Args:
        problem: What is learned.
        names: Names of the objectives; none: the mean scalarised value over clients or, where the
            problem has one objective, that one.

    Raises:
        UserError: A name is unknown, or is there twice.
    """
    own = [objective.name for objective in problem.objectives]
    single = len(own) == 1
    valid = [*([] if single else [MEAN]), WORST, *([] if single else [VOLUME]), *own, SENT]
    for place, name in enumerate(names):
        if name not in valid:
            raise unknown("objective", name, valid)
        if name in names[:place]:
            raise UserError(f"objectives: {name} is there twice.")
    return {
        name: "lower" if name == SENT else "higher"
        for name in names or ([own[0]] if single else [MEAN])
    }


def values_of(run: Run, names: Sequence[str]) -> tuple[dict[str, float | None], float]:
    """Return the value of each objective, and the share of clients that count for no front.

    Nothing is read from the run but its history and the bytes that it sent.

    Args:
        run: A finished run.
        names: The objectives.
    """
    configuration = run.configuration
    honest = np.delete(np.arange(configuration.clients), configuration.attackers)
    vectors = validated_vectors(configuration, run.history)[honest]
    preferences = configuration.get_preferences()[honest]
    problem = configuration.get_problem()
    history = run.history
    sent = sum(entry["bytes_up"] + entry["bytes_down"] for entry in history) / 1e6
    values = {**_values(problem, vectors, preferences), SENT: sent}
    defined = np.isfinite(vectors).all(axis=1)
    dropped = float((defined & ~problem.counts(vectors)).mean())
    return {name: finite([values[name]])[0] for name in names}, dropped


def _values(problem: Problem, vectors: FloatArray, preferences: FloatArray) -> Mapping[str, float]:
    """Return all values of vectors; a client without a value does not count for a mean.

    Where a client's model was never validated, nothing is known of the run: all values are NaN.
    """
    names = [objective.name for objective in problem.objectives]
    if np.isnan(vectors).all(axis=1).any():
        return dict.fromkeys([MEAN, WORST, VOLUME, *names], np.nan)
    scalarised = (vectors * preferences).sum(axis=1)
    measures = problem.measures(vectors, preferences)
    return {
        MEAN: measures.get(MEAN, np.nan),
        WORST: float(np.nanmin(scalarised)) if np.isfinite(scalarised).any() else np.nan,
        VOLUME: measures[VOLUME],
        **{
            name: float(np.nanmean(column)) if np.isfinite(column).any() else np.nan
            for name, column in zip(names, vectors.T, strict=True)
        },
    }
