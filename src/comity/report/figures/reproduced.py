"""Printed hypervolumes per client beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.report.figures.marks import CONSTANT
from comity.report.figures.style import GREY, MARKERS, PALETTE, canvas, legend_columns, styled
from comity.report.measures import folded, shown_names, vector

Rows = Sequence[Mapping[str, Any]]

_AXES = {
    "clients": "number of clients",
    "split": "split: share of local training for the communicated network",
}
_CONSTANT: dict[str, Any] = {"color": GREY, "linewidth": 1, "linestyle": (0, (1, 1.5))}
_POSSIBLE: dict[str, Any] = {"color": "#222222", "linewidth": 0.9, "linestyle": (0, (6, 2))}
_PRINTED: dict[str, Any] = {"linestyle": (0, (3, 1.5)), "linewidth": 1, "markerfacecolor": "white"}
_OURS, _PAPER = "ours, mean ± std over seeds", "printed in the paper"
_SIZE = 4


@styled
def reproduced(results: Mapping[str, Any]) -> Figure:
    """Against what a table varies, one line an algorithm; or one panel a problem."""
    rows, across = results["rows"], results["across"]
    axis = f"hypervolume per client, from {vector(results['reference_point'])}"
    paper = any(row["printed"]["mean"] is not None for row in rows)
    if across is None:
        figure = _panels(rows, axis)
        handles = [Line2D([], [], color=PALETTE[0], marker="o", markersize=_SIZE, label=_OURS)]
        printed = {**_PRINTED, "linestyle": ""}
    else:
        figure = canvas(5.6, 3.6)
        axes = figure.subplots()
        handles = _lines(axes, rows, across)
        axes.set(xlabel=_AXES[across], ylabel=axis)
        handles.append(Line2D([], [], color=GREY, marker="o", markersize=_SIZE, label=_OURS))
        printed = _PRINTED
    if paper:
        look: dict[str, Any] = {"color": GREY, "marker": "o", "markersize": _SIZE}
        handles.append(Line2D([], [], label=_PAPER, **look, **printed))
    handles.append(Line2D([], [], label=CONSTANT, **_CONSTANT))
    if any(row["reference"] is not None for row in rows):
        handles.append(Line2D([], [], label="possible for one centralised model", **_POSSIBLE))
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _lines(axes: Axes, rows: Rows, across: str) -> list[Line2D]:
    """Ours solid, printed dashed, one colour an algorithm."""
    names = {name: shown.partition("[")[0] for name, shown in shown_names(rows).items()}
    handles = []
    for place, name in enumerate(dict.fromkeys(names.values())):
        own = [row for row in rows if names[row["algorithm"]] == name]
        look: dict[str, Any] = {
            "color": PALETTE[place % len(PALETTE)],
            "marker": MARKERS[place % len(MARKERS)],
            "markersize": _SIZE,
        }
        x, ours, stds = _columns(own, across)
        axes.errorbar(x, ours, stds, elinewidth=0.8, **look)
        paper = np.array([row["printed"]["mean"] for row in own], dtype=float)
        axes.plot(x, paper, gid="printed", **look, **_PRINTED)
        handles.append(Line2D([], [], label=name, **look))
    x = sorted({row[across] for row in rows})
    axes.plot(x, [_mean([r["trivial"] for r in rows if r[across] == at]) for at in x], **_CONSTANT)
    if rows[0]["reference"] is not None:
        axes.axhline(rows[0]["reference"], gid="possible", **_POSSIBLE)
    axes.set_xticks(x)
    axes.grid(True, axis="y")
    return handles


def _panels(rows: Rows, axis: str) -> Figure:
    """Algorithms down: our mean and spread, and a hollow point for what is printed."""
    names = shown_names(rows)
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    figure = canvas(max(4.4, 1.5 + 1.9 * len(problems)), 0.34 * len(names) + 1.3)
    grid = figure.subplots(1, len(problems), squeeze=False, sharey=True)[0]
    for axes, problem in zip(grid, problems, strict=True):
        own = [row for row in rows if row["problem"] == problem]
        y = np.array([list(names).index(row["algorithm"]) for row in own], dtype=float)
        _, ours, stds = _columns(own, "clients")
        axes.errorbar(ours, y, xerr=stds, fmt="o", color=PALETTE[0], markersize=_SIZE)
        paper = np.array([row["printed"]["mean"] for row in own], dtype=float)
        look = {**_PRINTED, "linestyle": ""}
        axes.plot(
            paper, y, color=GREY, marker="o", markersize=_SIZE, zorder=1, gid="printed", **look
        )
        axes.axvline(_mean([row["trivial"] for row in own]), **_CONSTANT)
        if own[0]["reference"] is not None:
            axes.axvline(own[0]["reference"], gid="possible", **_POSSIBLE)
        axes.set_title(problem)
        axes.locator_params(axis="x", nbins=4)
        axes.grid(True)
    grid[0].set_yticks(range(len(names)), [folded(name) for name in names.values()])
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel(axis, fontsize=8)
    return figure


def _columns(rows: Rows, across: str) -> tuple[list[float], list[float], list[float]]:
    x = [float(row[across]) for row in rows]
    return x, [row["ours"]["mean"] for row in rows], [row["ours"]["std"] for row in rows]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
