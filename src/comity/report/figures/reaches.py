"""What clients reach who have a model for every preference, beside those who have one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.typing import FloatArray
from comity.report.figures.learning import Runs
from comity.report.figures.marks import draw_marks, mark_handles, marks_of, view
from comity.report.figures.pairs import frame, off_axes
from comity.report.figures.style import (
    GREY,
    MARKERS,
    PALETTE,
    canvas,
    legend_columns,
    styled,
    title_of,
)
from comity.report.measures import shown_names, vector
from comity.report.series.curves import objectives_of
from comity.runs.directory import Run


@styled
def reaches(comparison: Mapping[str, Any], runs: Runs) -> Figure | None:
    """Means over clients and seeds, strong, above every client of every seed, faint.

    An algorithm has one mean, or one for each preference that its models take. Preference
    distributions stand below each other, pairs of objectives side by side. None where no model
    takes preferences.
    """
    sets = {key: _reached(seeds) for key, seeds in runs.items() if seeds}
    spanning = {key[0] for key, vectors in sets.items() if vectors.shape[1] > 1}
    if not spanning:
        return None
    first = next(seeds[0] for seeds in runs.values() if seeds)
    problem = first.configuration.get_problem()
    marks = marks_of(first.results | {"trivial": comparison["trivial"]}, problem)
    every = np.concatenate([vectors.reshape(-1, vectors.shape[2]) for vectors in sets.values()])
    limits = view(every[np.isfinite(every).all(axis=1)], None, marks)
    kinds = list(dict.fromkeys(row["preferences"] for row in comparison["rows"]))
    pairs = list(combinations(range(len(problem.objectives)), 2))
    titles = [title_of(objective) for objective in problem.objectives]
    looks = _looks(list(shown_names(comparison["rows"])))
    height = 3.2 if len(pairs) == 1 else 2.3
    figure = canvas(max(7.2, 2.5 * len(pairs)), height * len(kinds) + 0.9)
    grid = figure.subplots(len(kinds), len(pairs), squeeze=False)
    panels = [(kind, pair) for kind in kinds for pair in pairs]
    for axes, (kind, pair) in zip(grid.flat, panels, strict=True):
        low, high = (edge[list(pair)] for edge in limits)
        frame(axes, low, high, None)
        draw_marks(axes, marks, pair, low, high)
        for name, look in looks.items():
            if (name, kind) in sets:
                _draw(axes, sets[name, kind], pair, (low, high), look)
        note = off_axes(every[:, pair], low, high)
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color=GREY)
        axes.set(xlabel=titles[pair[0]], ylabel=titles[pair[1]])
        axes.set_title(kind if len(kinds) > 1 else "")
        axes.grid(True)
    lines = spanning if len(pairs) == 1 else set()
    handles = _legend(comparison, looks, lines) + mark_handles(marks)
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    title = (
        "strong: mean over clients and seeds; faint: each client of each seed\n"
        f"HV: hypervolume per client from reference point {vector(comparison['reference_point'])}"
    )
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": columns}
    figure.legend(handles=handles, title=title, title_fontsize=7, **place)
    return figure


def _reached(seeds: Sequence[Run]) -> FloatArray:
    """(clients of all seeds x preferences x objectives); one preference where models take none."""
    found = []
    for run in seeds:
        spans = run.spans
        found.append(objectives_of(run)[:, None] if spans is None else spans.vectors)
    return np.concatenate(found)


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
    """One algorithm; what has something undefined is left out."""
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
    comparison: Mapping[str, Any], looks: Mapping[str, Mapping[str, Any]], lines: set[str]
) -> list[Line2D]:
    """The algorithms and, where each has but one, their hypervolumes."""
    rows = comparison["rows"]
    names = shown_names(rows)
    reached = {row["algorithm"]: row["metrics"]["own_hypervolume"]["mean"] for row in rows}
    handles = []
    for name, look in looks.items():
        told = f", HV {reached[name]:.3f}" if len(rows) == len(names) else ""
        line = {"marker": ""} if name in lines else {"linestyle": "", "markersize": 5}
        handles.append(Line2D([], [], label=names[name] + told, **{**look, **line}))
    return handles
