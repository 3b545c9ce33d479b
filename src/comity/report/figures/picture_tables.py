"""Printed tables of accuracies on pictures beside ours: rows side by side, or curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import (
    MARKERS,
    canvas,
    legend_above,
    legend_columns,
    line_style,
    plain_numbers,
    styled,
)
from comity.report.measures import PICTURE_HEADINGS, percent
from comity.runs.reproduction_schema import PictureResults, PictureRow

_WRAPPERS = {"": "host alone", "confree": "with ConFREE", "scaled-mean": "control: scaled-mean"}
_AXES = {
    "participation": "share of the clients in a round",
    "alpha": "Dirichlet concentration: lower is more different",
}
_PRINTED: dict[str, Any] = {"color": GREY, "markerfacecolor": "white", "linestyle": ""}
_SIZE = 4


@styled
def picture_table_figure(results: PictureResults) -> Figure:
    """Draw curves against what the table varies, or rows down with one panel per part."""
    rows, across = results["rows"], results["across"]
    if across is None:
        return _points(results)
    wrapped = any("+confree" in row["algorithm"] for row in rows)
    panels = {
        key: [row for row in rows if _panel(row, wrapped, across) == key]
        for key in dict.fromkeys(_panel(row, wrapped, across) for row in rows)
    }
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    figure = canvas(max(4.6, 2.5 * columns), 0.7 + 2.1 * lines)
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes, (title, selected) in zip(grid, panels.items(), strict=False):
        _curves(axes, selected, across, wrapped)
        axes.set_title(title)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    figure.supxlabel(_AXES[across], fontsize=8)
    figure.supylabel(PICTURE_HEADINGS["accuracy"], fontsize=8)
    legend_above(figure, grid[0])
    return figure


def _panel(row: PictureRow, wrapped: bool, across: str) -> str:
    """Return the panel of a row: its host where wrappers are compared, else its partition."""
    if wrapped:
        return row["algorithm"].partition("+")[0]
    return "" if across == "alpha" else row["partition"]


def _line(row: PictureRow, wrapped: bool) -> str:
    """Return the line of a row within its panel."""
    return _WRAPPERS[row["algorithm"].partition("+")[2]] if wrapped else row["algorithm"]


def _curves(axes: Axes, rows: Sequence[PictureRow], across: str, wrapped: bool) -> None:
    """Draw one curve per algorithm, or per wrapper of one host."""
    for index, name in enumerate(dict.fromkeys(_line(row, wrapped) for row in rows)):
        selected = [row for row in rows if _line(row, wrapped) == name]
        x = [_number(row, across) for row in selected]
        means, stds = _accuracies(selected, "accuracy")
        look = {**line_style(index), "marker": MARKERS[index % len(MARKERS)], "markersize": _SIZE}
        axes.errorbar(x, means, stds, elinewidth=0.8, label=name, gid="ours", **look)
    ticks = sorted({_number(row, across) for row in rows})
    if across == "alpha":
        axes.set_xscale("log")
    axes.set_xticks(ticks)
    plain_numbers(axes.xaxis)
    axes.grid(True, axis="y")


def _points(results: PictureResults) -> Figure:
    """Draw rows down: our mean and spread, and a hollow point for what is printed."""
    rows, measures = results["rows"], results["measures"]
    labels = [_part(row, results["varied"]) for row in rows]
    parts = list(dict.fromkeys(labels))
    panels = [(part, measure) for part in parts for measure in measures]
    names = list(dict.fromkeys(row["algorithm"] for row in rows))
    columns = min(4 if len(measures) == 1 else len(measures), len(panels))
    lines = -(-len(panels) // columns)
    height = 0.19 * len(names) + 0.6
    figure = canvas(max(4.4, 1.4 + 1.8 * columns), 0.5 + height * lines)
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for axes, (part, measure) in zip(grid.flatten(), panels, strict=False):
        selected = [row for row, label in zip(rows, labels, strict=True) if label == part]
        y = [names.index(row["algorithm"]) for row in selected]
        means, stds = _accuracies(selected, measure)
        axes.errorbar(means, y, xerr=stds, fmt="o", color=PALETTE[0], markersize=_SIZE, gid="ours")
        factor = percent(measure)
        paper = [factor * row["printed"].get(measure, np.nan) for row in selected]
        axes.plot(paper, y, marker="o", markersize=_SIZE, zorder=1, gid="printed", **_PRINTED)
        axes.set_title(part)
        axes.set_xlabel(PICTURE_HEADINGS[measure])
        axes.locator_params(axis="x", nbins=4)
        axes.grid(True)
    for axes in grid.flatten()[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
    look: Mapping[str, Any] = {"color": PALETTE[0], "marker": "o", "markersize": _SIZE}
    handles = [Line2D([], [], label="ours, mean ± population std over seeds", **look)]
    if any(row["printed"] for row in rows):
        handles.append(Line2D([], [], label="printed", marker="o", markersize=_SIZE, **_PRINTED))
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _part(row: PictureRow, varied: Sequence[str]) -> str:
    """Return the heading of a panel: the partition, or what is varied."""
    values: Mapping[str, Any] = dict(row)
    words = {
        "clients": "{} clients",
        "participation": "{:.0%} per round",
        "local_epochs": "{} passes",
    }
    return "\n".join([row["partition"], *(words[name].format(values[name]) for name in varied)])


def _number(row: PictureRow, name: str) -> float:
    values: Mapping[str, Any] = dict(row)
    return float(values[name])


def _accuracies(rows: Sequence[PictureRow], measure: str) -> tuple[list[float], list[float]]:
    """Return means and standard deviations as readers see them, one per row."""
    factor = percent(measure)
    spreads = [row["ours"][measure] for row in rows]
    means = [np.nan if spread is None else factor * spread["mean"] for spread in spreads]
    return means, [0.0 if spread is None else factor * (spread["std"] or 0.0) for spread in spreads]
