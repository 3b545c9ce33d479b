"""Printed hypervolumes per client, and printed values against a setting, beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.report.captions import model_heading
from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import MARKERS, canvas, legend_columns, styled
from comity.report.measures import MEASURES, display_names, fold_label, vector
from comity.report.series.baselines import CONSTANT
from comity.runs.reproduction_schema import PerClientResults, PerClientRow, ReproductionResults

_CONSTANT: dict[str, Any] = {"color": GREY, "linewidth": 1, "linestyle": (0, (1, 1.5))}
_POSSIBLE: dict[str, Any] = {"color": "#222222", "linewidth": 0.9, "linestyle": (0, (6, 2))}
_PRINTED: dict[str, Any] = {"linestyle": (0, (3, 1.5)), "linewidth": 1, "markerfacecolor": "white"}
_OURS, _PAPER = "ours, mean ± population std over seeds", "printed in the paper"
_SIZE = 4


@styled
def reproduction_figure(results: PerClientResults) -> Figure:
    """Draw one line per algorithm against the number of clients, or one panel per problem."""
    rows = results["rows"]
    axis = f"hypervolume per client, from {vector(results['reference_point'])}"
    paper = any(row["printed"]["mean"] is not None for row in rows)
    if results["across"] is None:
        figure = _panels(rows, axis)
        handles = [Line2D([], [], color=PALETTE[0], marker="o", markersize=_SIZE, label=_OURS)]
        printed = {**_PRINTED, "linestyle": ""}
    else:
        figure = canvas(5.6, 3.6)
        axes = figure.subplots()
        handles = _lines(axes, rows)
        axes.set(xlabel="number of clients", ylabel=axis)
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


@styled
def setting_figure(results: ReproductionResults) -> Figure:
    """Draw the measure of a table against the setting that it varies, on one problem."""
    rows, across = cast(list[Mapping[str, Any]], results["rows"]), results.get("across") or ""
    figure = canvas(4.6, 3.2)
    axes = figure.subplots()
    x = [row[across] for row in rows]
    columns = [c for c in ("paper_protocol", "our_defaults", "printed") if c in rows[0]]
    for index, column in enumerate(columns):
        means, stds = ([row[column][key] or 0.0 for row in rows] for key in ("mean", "std"))
        look: dict[str, Any] = {
            "marker": MARKERS[index],
            "markersize": _SIZE,
            "color": PALETTE[index],
        }
        if column == "printed":
            look = {**look, **_PRINTED, "color": GREY}
        label = model_heading(results, column)
        axes.errorbar(x, means, stds, elinewidth=0.8, label=label, gid=column, **look)
    measure = {m.name: m.label for m in MEASURES}.get(results["measure"] or "", "")
    axes.set(xlabel=across, ylabel=measure, title=results["problem"])
    axes.grid(True, axis="y")
    labels = [str(label) for label in axes.get_legend_handles_labels()[1]]
    figure.legend(loc="outside upper center", ncols=legend_columns(figure, labels))
    return figure


def _lines(axes: Axes, rows: Sequence[PerClientRow]) -> list[Line2D]:
    """Draw ours solid, printed dashed, one colour per algorithm."""
    names = {name: shown.partition("[")[0] for name, shown in display_names(rows).items()}
    handles = []
    for index, name in enumerate(dict.fromkeys(names.values())):
        selected = [row for row in rows if names[row["algorithm"]] == name]
        look: dict[str, Any] = {
            "color": PALETTE[index % len(PALETTE)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": _SIZE,
        }
        x, ours, stds = _columns(selected)
        axes.errorbar(x, ours, stds, elinewidth=0.8, **look)
        paper = np.array([row["printed"]["mean"] for row in selected], dtype=float)
        axes.plot(x, paper, gid="printed", **look, **_PRINTED)
        handles.append(Line2D([], [], label=name, **look))
    x = sorted({float(row["clients"]) for row in rows})
    trivial = [_mean([row["trivial"] for row in rows if row["clients"] == at]) for at in x]
    axes.plot(x, trivial, **_CONSTANT)
    if rows[0]["reference"] is not None:
        axes.axhline(rows[0]["reference"], gid="possible", **_POSSIBLE)
    axes.set_xticks(x)
    axes.grid(True, axis="y")
    return handles


def _panels(rows: Sequence[PerClientRow], axis: str) -> Figure:
    """Draw algorithms down: our mean and spread, and a hollow point for what is printed."""
    names = display_names(rows)
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    figure = canvas(max(4.4, 1.5 + 1.9 * len(problems)), 0.34 * len(names) + 1.3)
    grid = figure.subplots(1, len(problems), squeeze=False, sharey=True)[0]
    for axes, problem in zip(grid, problems, strict=True):
        selected = [row for row in rows if row["problem"] == problem]
        y = np.array([list(names).index(row["algorithm"]) for row in selected], dtype=float)
        _, ours, stds = _columns(selected)
        axes.errorbar(ours, y, xerr=stds, fmt="o", color=PALETTE[0], markersize=_SIZE)
        paper = np.array([row["printed"]["mean"] for row in selected], dtype=float)
        look = {**_PRINTED, "linestyle": ""}
        axes.plot(
            paper, y, color=GREY, marker="o", markersize=_SIZE, zorder=1, gid="printed", **look
        )
        axes.axvline(_mean([row["trivial"] for row in selected]), **_CONSTANT)
        if selected[0]["reference"] is not None:
            axes.axvline(selected[0]["reference"], gid="possible", **_POSSIBLE)
        axes.set_title(problem)
        axes.locator_params(axis="x", nbins=4)
        axes.grid(True)
    grid[0].set_yticks(range(len(names)), [fold_label(name) for name in names.values()])
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel(axis, fontsize=8)
    return figure


def _columns(rows: Sequence[PerClientRow]) -> tuple[list[float], list[float], list[float]]:
    """Return numbers of clients, our means and our standard deviations, one per row."""
    x = [float(row["clients"]) for row in rows]
    return x, [row["ours"]["mean"] for row in rows], [row["ours"]["std"] or 0.0 for row in rows]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
