"""How fast algorithms learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.typing import FloatArray
from comity.report.figures.style import (
    canvas,
    legend_above,
    log_scale,
    series,
    styled,
    thousands,
)
from comity.report.measures import shown_names, single
from comity.report.series.curves import curves, validated
from comity.report.terms import words_of
from comity.runs.directory import Run

Runs = Mapping[tuple[str, str], Sequence[Run]]


@dataclass(frozen=True)
class LearningCurve:
    """An algorithm's learning curve: mean over seeds and its standard error."""

    steps: FloatArray
    mean: FloatArray
    error: FloatArray


@styled
def learning(comparison: Mapping[str, Any], runs: Runs) -> Figure | None:
    """Kept models' regret (or mean return) against steps; one panel a preference distribution."""
    lessons = learn(comparison, runs)
    if not lessons:
        return None
    regret = has_regret(runs)
    kinds = list(dict.fromkeys(kind for _, kind in lessons))
    names = shown_names(comparison["rows"])
    figure = canvas(max(4.0, 2.45 * len(kinds)), 2.9)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        own = {
            shown: lessons[name, kind] for name, shown in names.items() if (name, kind) in lessons
        }
        _panel(axes, own, list(names.values()))
        axes.set_title("" if single(comparison) else kind)
    if regret:
        log_scale(panels[0], np.concatenate([lesson.mean for lesson in lessons.values()]))
    panels[0].set_ylabel(learned(runs))
    figure.supxlabel(words_of(comparison).steps, fontsize=8)
    legend_above(figure, panels[0])
    return figure


def has_regret(runs: Runs) -> bool:
    """Whether every client of every run knows its optimum."""
    clients = [c for seeds in runs.values() for run in seeds for c in run.results["per_client"]]
    return all("optimum" in client for client in clients)


def learned(runs: Runs) -> str:
    """What learning curves show, as an axis label."""
    if has_regret(runs):
        return "mean regret (validation)"
    return validated(next(seeds[0] for seeds in runs.values() if seeds))


def learn(comparison: Mapping[str, Any], runs: Runs) -> dict[tuple[str, str], LearningCurve]:
    """The learning curve of each row, by algorithm and preference distribution."""
    regret = has_regret(runs)
    lessons = {}
    for row in comparison["rows"]:
        seeds = runs.get((row["algorithm"], row["preferences"]), ())
        if seeds:
            lessons[row["algorithm"], row["preferences"]] = _lesson(seeds, regret)
    return lessons


def _lesson(seeds: Sequence[Run], regret: bool) -> LearningCurve:
    """Seeds differ a little in their steps: all are read off at those of the first."""
    lines = []
    for run in seeds:
        found = curves(run)
        line = found.regret("kept") if regret else found.mean("kept")
        assert line is not None
        lines.append((found.steps, line))
    steps = lines[0][0]
    values = np.array([np.interp(steps, x, y) for x, y in lines])
    return LearningCurve(steps, values.mean(axis=0), values.std(axis=0) / np.sqrt(len(seeds)))


def _panel(axes: Axes, lessons: Mapping[str, LearningCurve], algorithms: Sequence[str]) -> None:
    axes.grid(True, axis="y")
    for name, lesson in lessons.items():
        look = series(algorithms.index(name))
        axes.plot(lesson.steps, lesson.mean, label=name, **look)
        axes.fill_between(
            lesson.steps,
            lesson.mean - lesson.error,
            lesson.mean + lesson.error,
            color=look["color"],
            alpha=0.09,
            linewidth=0,
        )
    thousands(axes.xaxis)
    axes.locator_params(axis="x", nbins=4)
