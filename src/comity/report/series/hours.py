"""Quality over the hours of a contact plan, and how late updates were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.configuration import planned
from comity.core.typing import BoolArray, FloatArray
from comity.links.settings import HOUR, SECOND
from comity.report.series.curves import Curves, Kind, curves
from comity.report.series.learning import Runs, has_regret
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults

ALONE = "no-communication"
"""The entry whose line is to be beaten."""


@dataclass(frozen=True)
class HourCurve:
    """Quality over hours: mean over seeds and its population std."""

    hours: FloatArray
    mean: FloatArray
    std: FloatArray


def hours_of(run: Run) -> FloatArray:
    """Return the hour of each entry of a history; that of the last delivery is the plan's end."""
    end = planned(run.configuration).plan.end / SECOND
    return np.array([entry.get("time", end) for entry in run.history]) * SECOND / HOUR


def known(history: Curves, kind: Kind) -> BoolArray:
    """Return the entries from which on every client has a value that ever has one in a round.

    A mean over more and more clients would show who came later, not who became better.
    """
    values = np.isfinite(history.values[kind])
    taking_part = values[:-1].any(axis=0)
    complete = values[:, taking_part].all(axis=1) & values.any(axis=1)
    return np.asarray(complete)


def hour_curves(comparison: ComparisonResults, runs: Runs) -> dict[tuple[str, str], HourCurve]:
    """Return the curve of each row whose runs have links, by entry and preferences."""
    regret = has_regret(runs)
    keys = [(row["algorithm"], row["preferences"]) for row in comparison["rows"]]
    linked = [key for key in keys if runs.get(key) and runs[key][0].configuration.links is not None]
    return {key: _curve(runs[key], regret) for key in linked}


def _curve(seeds: Sequence[Run], regret: bool) -> HourCurve:
    """Return mean and std; the timetable of an entry is the same for every seed."""
    lines = []
    for run in seeds:
        history = curves(run)
        line = history.regret("kept") if regret else history.mean("kept")
        assert line is not None
        shown = known(history, "kept")
        lines.append((hours_of(run)[shown], line[shown]))
    hours = lines[0][0]
    values = np.array([np.interp(hours, x, y) for x, y in lines])
    return HourCurve(hours, values.mean(axis=0), values.std(axis=0))


def ages_of(run: Run) -> dict[int, int]:
    """Return the number of updates of each age, from 0 to the largest."""
    counts = Counter(age for entry in run.history for age in entry.get("age", ()))
    return {age: counts[age] for age in range(max(counts, default=-1) + 1)}
