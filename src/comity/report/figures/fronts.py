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
from comity.report.colours import GREY
from comity.report.figures.baselines import baseline_handles, draw_baselines
from comity.report.figures.pairs import attained, frame, off_axes
from comity.report.figures.style import canvas, legend_columns, line_style, styled
from comity.report.measures import display_names, has_data, objective_label
from comity.report.series.baselines import comparison_baselines
from comity.report.series.fronts import SHARED, pooled_sets, shared_sets
from comity.report.series.learning import Runs, first_run
from comity.report.series.limits import limits_with_baselines
from comity.runs.schema import ComparisonResults


@styled
def fronts(comparison: ComparisonResults, runs: Runs) -> Figure | None:
    """Draw the models of all seeds' clients as one set, and its front; one colour per algorithm.

    Preference distributions stand side by side; with more than two objectives they stand below
    each other, and pairs of objectives side by side. Weights that all clients share make one set,
    to which each run gives the mean over its clients. None where clients have no data.
    """
    first = first_run(runs)
    if not has_data(comparison) or first is None:
        return None
    problem = first.configuration.get_problem()
    kinds = list(dict.fromkeys(row["preferences"] for row in comparison["rows"]))
    if len(kinds) > 1 and all(kind.startswith("same:") for kind in kinds):
        sets, kinds = shared_sets(runs, problem), [SHARED]
    else:
        sets = pooled_sets(runs, problem)
    looks = _looks(list(dict.fromkeys(row["algorithm"] for row in comparison["rows"])))
    pairs = list(combinations(range(len(problem.objectives)), 2))
    baselines = comparison_baselines(comparison, first.results, problem)
    limits = limits_with_baselines(np.concatenate(list(sets.values())), None, baselines)
    across = len(kinds) if len(pairs) == 1 else len(pairs)
    down = len(kinds) * len(pairs) // across
    figure = canvas(max(4.4, 2.5 * across), (3.2 if across == 1 else 2.3) * down + 0.4)
    grid = figure.subplots(down, across, squeeze=False)
    titles = [objective_label(objective) for objective in problem.objectives]
    panels = [(kind, pair) for kind in kinds for pair in pairs]
    for axes, (kind, pair) in zip(grid.flat, panels, strict=True):
        low, high = (edge[list(pair)] for edge in limits)
        frame(axes, low, high, None)
        draw_baselines(axes, baselines, pair, low, high)
        shown = {name: sets[name, kind] for name in looks if (name, kind) in sets}
        for algorithm, points in shown.items():
            _draw(axes, points, pair, (low, high), looks[algorithm])
        drawn = np.concatenate([np.empty((0, len(titles))), *shown.values()])
        note = off_axes(drawn[:, pair], low, high)
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color=GREY)
        axes.set(xlabel=titles[pair[0]], ylabel=titles[pair[1]], title=kind)
        axes.grid(True)
    names = display_names(comparison["rows"])
    handles = [Line2D([], [], label=names[name], **look) for name, look in looks.items()]
    handles += baseline_handles(baselines)
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside upper center", ncols=max(2, columns))
    return figure


def _looks(algorithms: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the look of each algorithm, the later the thinner: fronts often share an edge."""
    widths = np.linspace(2.0, 0.9, len(algorithms))
    return {
        name: {**line_style(index), "linewidth": widths[index]}
        for index, name in enumerate(algorithms)
    }


def _draw(
    axes: Axes,
    points: FloatArray,
    pair: tuple[int, int],
    limits: tuple[FloatArray, FloatArray],
    look: Mapping[str, Any],
) -> None:
    """Draw a set: points of its front are larger and, for two objectives, joined by the rim."""
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
