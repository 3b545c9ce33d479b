"""Reach of models that take any preference, beside models that take none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.typing import FloatArray
from comity.report.colours import GREY, PALETTE
from comity.report.figures.baselines import baseline_handles, draw_baselines
from comity.report.figures.pairs import frame, off_axes
from comity.report.figures.style import (
    MARKERS,
    canvas,
    legend_columns,
    styled,
)
from comity.report.measures import display_names, objective_label, vector
from comity.report.series.baselines import comparison_baselines
from comity.report.series.fronts import reached_sets
from comity.report.series.learning import Runs, first_run
from comity.report.series.limits import limits_with_baselines
from comity.runs.schema import ComparisonResults


@styled
def reaches(comparison: ComparisonResults, runs: Runs) -> Figure | None:
    """Draw means over clients and seeds, strong, above every client of every seed, faint.

    An algorithm has one mean, or one for each preference that its models take. Preference
    distributions stand below each other, pairs of objectives side by side. None where no model
    takes preferences.
    """
    sets, first = reached_sets(runs), first_run(runs)
    spanning = {entry for (entry, _), vectors in sets.items() if vectors.shape[1] > 1}
    if not spanning or first is None:
        return None
    problem = first.configuration.get_problem()
    baselines = comparison_baselines(comparison, first.results, problem)
    every = np.concatenate([vectors.reshape(-1, vectors.shape[2]) for vectors in sets.values()])
    limits = limits_with_baselines(every[np.isfinite(every).all(axis=1)], None, baselines)
    kinds = list(dict.fromkeys(row["preferences"] for row in comparison["rows"]))
    pairs = list(combinations(range(len(problem.objectives)), 2))
    titles = [objective_label(objective) for objective in problem.objectives]
    looks = _looks(list(display_names(comparison["rows"])))
    height = 3.2 if len(pairs) == 1 else 2.3
    figure = canvas(max(7.2, 2.5 * len(pairs)), height * len(kinds) + 0.9)
    grid = figure.subplots(len(kinds), len(pairs), squeeze=False)
    panels = [(kind, pair) for kind in kinds for pair in pairs]
    for axes, (kind, pair) in zip(grid.flat, panels, strict=True):
        low, high = (edge[list(pair)] for edge in limits)
        frame(axes, low, high, None)
        draw_baselines(axes, baselines, pair, low, high)
        for name, look in looks.items():
            if (name, kind) in sets:
                _draw(axes, sets[name, kind], pair, (low, high), look)
        note = off_axes(every[:, pair], low, high)
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color=GREY)
        axes.set(xlabel=titles[pair[0]], ylabel=titles[pair[1]])
        axes.set_title(kind if len(kinds) > 1 else "")
        axes.grid(True)
    lines = spanning if len(pairs) == 1 else set()
    handles = _legend(comparison, looks, lines) + baseline_handles(baselines)
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    title = (
        "strong: mean over clients and seeds; faint: each client of each seed\n"
        f"HV: hypervolume per client from reference point {vector(comparison['reference_point'])}"
    )
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": columns}
    figure.legend(handles=handles, title=title, title_fontsize=7, **place)
    return figure


def _looks(algorithms: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {
        name: {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
        for i, name in enumerate(algorithms)
    }


def _draw(
    axes: Axes,
    vectors: FloatArray,
    pair: tuple[int, int],
    limits: tuple[FloatArray, FloatArray],
    look: Mapping[str, Any],
) -> None:
    """Draw one algorithm; clients with undefined scores are left out."""
    clients = vectors[np.isfinite(vectors).all(axis=(1, 2))]
    if not len(clients):
        return
    each = np.clip(np.unique(clients.reshape(-1, vectors.shape[2]), axis=0)[:, pair], *limits)
    x, y = np.clip(clients.mean(axis=0)[:, pair], *limits).T
    colour, several = look["color"], len(x) > 1
    faint: dict[str, Any] = {"s": 3} if several else {"s": 14, "marker": look["marker"]}
    axes.scatter(*each.T, color=colour, alpha=0.2, linewidth=0, zorder=2, **faint)
    if several and vectors.shape[2] == 2:  # in the order of the preferences, which are even
        axes.plot(x, y, color=colour, linewidth=1.8, zorder=3, gid="mean")
    else:
        strong = {"s": 8, "linewidth": 0} if several else {"s": 40, "edgecolor": "#222222"}
        marker = "o" if several else look["marker"]
        axes.scatter(x, y, color=colour, marker=marker, zorder=3, gid="mean", **strong)


def _legend(
    comparison: ComparisonResults, looks: Mapping[str, Mapping[str, Any]], lines: set[str]
) -> list[Line2D]:
    """Return handles of the algorithms, with the hypervolume where each has only one."""
    rows = comparison["rows"]
    names = display_names(rows)
    reached = {row["algorithm"]: row["metrics"].get("own_hypervolume") for row in rows}
    handles = []
    for name, look in looks.items():
        volume = reached[name] if len(rows) == len(names) else None
        value = "" if volume is None else f", HV {volume['mean']:.3f}"
        line = {"marker": ""} if name in lines else {"linestyle": "", "markersize": 5}
        handles.append(Line2D([], [], label=names[name] + value, **{**look, **line}))
    return handles
