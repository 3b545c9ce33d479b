"""Algorithms side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from comity.core.typing import FloatArray
from comity.report.figures.style import GREY, PALETTE, canvas, plain_numbers, styled
from comity.report.measures import (
    Measure,
    compared,
    folded,
    number,
    shown_names,
    single,
    with_pooled,
)

Rows = Sequence[Mapping[str, Any]]
_COLUMNS = 3
_DASHES: dict[str, Any] = {"optimum": (0, (6, 2)), "trivial": (0, (1, 1.5))}


@styled
def bars(comparison: Mapping[str, Any]) -> Figure:
    """One panel a measure; algorithms down, preference distributions in colours; mean and std.

    Bars start at zero. Where all values lie close together far from it, or over several orders
    of magnitude, bars would hide or distort the differences, and dots are drawn instead.
    """
    rows: Rows = with_pooled(comparison)
    measures = compared(rows, single(comparison))
    algorithms = list(dict.fromkeys(row["algorithm"] for row in rows))
    kinds = list(dict.fromkeys(row["preferences"] for row in rows))
    columns = min(_COLUMNS, len(measures))
    lines = -(-len(measures) // columns)
    names = [folded(name) for name in shown_names(rows).values()]
    tall = max(0.095 * len(kinds) + 0.09, 0.125 * max(name.count("\n") + 1 for name in names))
    each = max(1.3, len(algorithms) * tall + 0.55)
    figure = canvas(7.2, lines * each + 0.3)
    grid = figure.subplots(lines, columns, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(measures):
            axes.axis("off")
            continue
        _panel(axes, {**comparison, "rows": rows}, measures[place], algorithms, kinds)
        if place % columns:
            axes.tick_params(labelleft=False)
    known = [name for name in _DASHES if name in comparison or any(name in row for row in rows)]
    handles = _legend([] if single(comparison) else kinds, known)
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _legend(kinds: Sequence[str], baselines: Sequence[str]) -> list[Artist]:
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(kinds))]
    handles: list[Artist] = [
        Patch(color=colour, label=kind) for colour, kind in zip(colours, kinds, strict=True)
    ]
    for name in baselines:
        handles.append(Line2D([], [], color=GREY, linewidth=1, linestyle=_DASHES[name], label=name))
    return handles


def _panel(
    axes: Axes,
    comparison: Mapping[str, Any],
    measure: Measure,
    algorithms: Sequence[str],
    kinds: Sequence[str],
) -> None:
    means, stds = _table(comparison["rows"], measure.name, algorithms, kinds)
    style = _style(means, measure)
    height = 0.8 / len(kinds)
    for column in range(len(kinds)):
        y = np.arange(len(algorithms), dtype=np.float64) + (column + 0.5) * height - 0.4
        _draw(
            axes,
            style,
            y,
            means[:, column],
            stds[:, column],
            height,
            PALETTE[column % len(PALETTE)],
        )
    if style == "log":
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
    else:
        axes.locator_params(axis="x", nbins=4)
    names = shown_names(comparison["rows"])
    axes.set_yticks(range(len(algorithms)), [folded(names[name]) for name in algorithms])
    axes.set_ylim(len(algorithms) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.set_title(measure.label + measure.arrow)
    for yardstick in _DASHES if measure.better else ():
        _yardstick(axes, yardstick, _known(comparison, yardstick, measure.name))


def _table(
    rows: Rows, name: str, algorithms: Sequence[str], kinds: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (algorithms x distributions); NaN where there is none."""
    means = np.full((len(algorithms), len(kinds)), np.nan)
    stds = np.zeros(means.shape)
    for row in rows:
        metric = row["metrics"].get(name)
        if metric is not None and metric["mean"] is not None:
            place = algorithms.index(row["algorithm"]), kinds.index(row["preferences"])
            means[place], stds[place] = metric["mean"], metric.get("std") or 0.0
    return means, stds


def _style(means: FloatArray, measure: Measure) -> str:
    values = means[np.isfinite(means)]
    largest, smallest = np.abs(values).max(), np.abs(values).min()
    if measure.better == "lower" and values.min() > 0 and largest > 20 * smallest:
        return "log"
    return "dots" if values.max() - values.min() < 0.25 * largest else "bars"


def _draw(
    axes: Axes,
    style: str,
    y: FloatArray,
    means: FloatArray,
    stds: FloatArray,
    height: float,
    colour: str,
) -> None:
    known = np.isfinite(means)
    y, means, stds = y[known], means[known], stds[known]
    whiskers = {"ecolor": "#222222", "elinewidth": 0.7, "capsize": 0}
    if style == "bars":
        axes.barh(y, means, 0.92 * height, xerr=stds, color=colour, error_kw=whiskers)
        axes.axvline(0.0, color="#222222", linewidth=0.6)
    else:
        # a whisker through zero has no place on a logarithmic axis
        below = np.minimum(stds, 0.95 * means) if style == "log" else stds
        axes.errorbar(
            means,
            y,
            xerr=np.array([below, stds]),
            fmt="o",
            markersize=3.4,
            color=colour,
            elinewidth=0.9,
        )


def _known(comparison: Mapping[str, Any], yardstick: str, name: str) -> dict[str, float]:
    """A yardstick's value for each preference distribution, or one for all if they agree."""
    common = comparison.get(yardstick, {})
    values = {
        row["preferences"]: row.get(yardstick, common).get(name) for row in comparison["rows"]
    }
    known = {kind: float(value) for kind, value in values.items() if value is not None}
    if known and np.ptp(list(known.values())) < 1e-9:
        return {"": next(iter(known.values()))}
    return known


def _yardstick(axes: Axes, yardstick: str, values: Mapping[str, float]) -> None:
    """Lines in the colours of their distributions; words where a line would squeeze the rest."""
    low, high = axes.get_xlim()
    room = 0.3 * (high - low)
    if all(low - room <= value <= high + room for value in values.values()):
        for place, (kind, value) in enumerate(values.items()):
            colour = PALETTE[place % len(PALETTE)] if kind else GREY
            axes.axvline(
                value, color=colour, linewidth=1, linestyle=_DASHES[yardstick], gid=yardstick
            )
    else:
        spoken = sorted({number(value, 3) for value in values.values()})
        parts = [axes.get_xlabel(), f"{yardstick}: {' / '.join(spoken)}"]
        axes.set_xlabel("; ".join(filter(None, parts)), fontsize=6.5, color=GREY)
