"""Fronts of algorithms side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.pareto import nondominated
from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.figures.learning import Runs
from comity.report.figures.marks import draw_marks, mark_handles, marks_of, view
from comity.report.figures.pairs import attained, frame, off_axes
from comity.report.figures.style import GREY, canvas, legend_columns, series, styled, title_of
from comity.report.measures import has_data, shown_names
from comity.report.series.curves import objectives_of
from comity.runs.directory import Run

SHARED = "one weight for all clients of a run, each point their mean"


@styled
def fronts(comparison: Mapping[str, Any], runs: Runs) -> Figure | None:
    """The models of all seeds' clients as one set, and its front; one colour an algorithm.

    Preference distributions stand side by side; with more than two objectives they stand below
    each other, and pairs of objectives side by side. Weights that all clients share make one set,
    to which each run gives the mean over its clients. None where clients have no data.
    """
    if not has_data(comparison) or not any(runs.values()):
        return None
    first = next(seeds[0] for seeds in runs.values() if seeds)
    problem = first.configuration.get_problem()
    kinds = list(dict.fromkeys(row["preferences"] for row in comparison["rows"]))
    if len(kinds) > 1 and all(kind.startswith("same:") for kind in kinds):
        sets, kinds = _shared(runs, problem), [SHARED]
    else:
        sets = {key: _points(seeds, problem) for key, seeds in runs.items() if seeds}
    looks = _looks(list(dict.fromkeys(row["algorithm"] for row in comparison["rows"])))
    pairs = list(combinations(range(len(problem.objectives)), 2))
    marks = marks_of(first.results | {"trivial": comparison["trivial"]}, problem)
    limits = view(np.concatenate(list(sets.values())), None, marks)
    across = len(kinds) if len(pairs) == 1 else len(pairs)
    down = len(kinds) * len(pairs) // across
    figure = canvas(max(4.4, 2.5 * across), (3.2 if across == 1 else 2.3) * down + 0.4)
    grid = figure.subplots(down, across, squeeze=False)
    titles = [title_of(objective) for objective in problem.objectives]
    panels = [(kind, pair) for kind in kinds for pair in pairs]
    for axes, (kind, pair) in zip(grid.flat, panels, strict=True):
        low, high = (edge[list(pair)] for edge in limits)
        frame(axes, low, high, None)
        draw_marks(axes, marks, pair, low, high)
        own = {name: sets[name, kind] for name in looks if (name, kind) in sets}
        for algorithm, points in own.items():
            _draw(axes, points, pair, (low, high), looks[algorithm])
        drawn = np.concatenate([np.empty((0, len(titles))), *own.values()])
        note = off_axes(drawn[:, pair], low, high)
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color=GREY)
        axes.set(xlabel=titles[pair[0]], ylabel=titles[pair[1]], title=kind)
        axes.grid(True)
    names = shown_names(comparison["rows"])
    handles = [Line2D([], [], label=names[name], **look) for name, look in looks.items()]
    handles += mark_handles(marks)
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside upper center", ncols=max(2, columns))
    return figure


def _looks(algorithms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Fronts often share an edge: a later one must leave a rim of an earlier one."""
    widths = np.linspace(2.0, 0.9, len(algorithms))
    return {
        name: {**series(place), "linewidth": widths[place]} for place, name in enumerate(algorithms)
    }


def _shared(runs: Runs, problem: Problem) -> dict[tuple[str, str], FloatArray]:
    """The mean over clients of every run, by algorithm, whatever weights its clients share."""
    found: dict[tuple[str, str], list[FloatArray]] = {}
    for (algorithm, _), seeds in runs.items():
        means = [np.nanmean(objectives_of(run), axis=0) for run in seeds]
        found.setdefault((algorithm, SHARED), []).extend(means)
    sets = {key: np.array(means) for key, means in found.items() if means}
    return {key: points[problem.counts(points)] for key, points in sets.items()}


def _points(seeds: Sequence[Run], problem: Problem) -> FloatArray:
    """All that count for the front."""
    points = np.concatenate([objectives_of(run) for run in seeds])
    return points[problem.counts(points)]


def _draw(
    axes: Axes,
    points: FloatArray,
    pair: tuple[int, int],
    limits: tuple[FloatArray, FloatArray],
    look: Mapping[str, Any],
) -> None:
    """A set: the points of its front larger and, for two objectives, with the front's rim."""
    if not len(points):
        return
    best = nondominated(points)
    shown = np.clip(points[:, pair], *limits)
    for some, size, strength in ((shown[~best], 6, 0.4), (shown[best], 12, 1.0)):
        axes.scatter(
            some[:, 0],
            some[:, 1],
            s=size,
            color=look["color"],
            alpha=strength,
            linewidth=0,
            clip_on=False,
            zorder=3,
        )
    if points.shape[1] == 2:
        front = shown[best]
        attained(axes, front[np.argsort(front[:, 0])], limits[0], **look)
