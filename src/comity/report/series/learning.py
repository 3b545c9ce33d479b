"""Learning curves of a comparison: means over seeds against steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.typing import FloatArray
from comity.report.series.curves import curves, validation_label
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults

Runs = Mapping[tuple[str, str], Sequence[Run]]
"""Runs of a comparison by entry and preference distribution, one per seed."""


@dataclass(frozen=True)
class LearningCurve:
    """Learning curve of one algorithm: mean over seeds and its population std."""

    steps: FloatArray
    mean: FloatArray
    std: FloatArray


def first_run(runs: Runs) -> Run | None:
    """Return the first run of a comparison, if there is any."""
    return next((run for seeds in runs.values() for run in seeds), None)


def has_regret(runs: Runs) -> bool:
    """Return whether the optimum of every client of every run is known."""
    clients = [c for seeds in runs.values() for run in seeds for c in run.results["per_client"]]
    return all("optimum" in client for client in clients)


def y_label(runs: Runs) -> str:
    """Return the y label of learning curves."""
    if has_regret(runs):
        return "mean regret (validation)"
    return validation_label(next(seeds[0] for seeds in runs.values() if seeds))


def learning_curves(
    comparison: ComparisonResults, runs: Runs
) -> dict[tuple[str, str], LearningCurve]:
    """Return the learning curve of each row that has runs, by entry and preference distribution."""
    regret = has_regret(runs)
    keys = [(row["algorithm"], row["preferences"]) for row in comparison["rows"]]
    return {key: _learning_curve(runs[key], regret) for key in keys if runs.get(key)}


def _learning_curve(seeds: Sequence[Run], regret: bool) -> LearningCurve:
    """Return mean and std at the steps of the first seed; those of others differ a little."""
    lines = []
    for run in seeds:
        history = curves(run)
        line = history.regret("kept") if regret else history.mean("kept")
        assert line is not None
        lines.append((history.steps, line))
    steps = lines[0][0]
    values = np.array([np.interp(steps, x, y) for x, y in lines])
    return LearningCurve(steps, values.mean(axis=0), values.std(axis=0))
