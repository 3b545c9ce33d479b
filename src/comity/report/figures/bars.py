"""Measures of algorithms side by side."""

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
from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import canvas, legend_columns, plain_numbers, styled
from comity.report.measures import (
    Measure,
    compared_measures,
    display_names,
    fold_label,
    has_single_objective,
    number,
    with_pooled,
)
from comity.report.series.comparison import Baseline, baseline_values, measure_arrays
from comity.runs.schema import ComparisonResults

_COLUMNS = 3
_DASHES: dict[Baseline, Any] = {"optimum": (0, (6, 2)), "trivial": (0, (1, 1.5))}


@styled
def bars(comparison: ComparisonResults) -> Figure:
    """Draw mean and std, one panel per measure; algorithms down, distributions in colours.

    Bars start at zero. Where all values lie close together far from it, or over several orders
    of magnitude, bars would hide or distort the differences, and dots are drawn instead.
    """
    rows, single_objective = with_pooled(comparison), has_single_objective(comparison)
    measures = compared_measures(rows, single_objective)
    algorithms = list(dict.fromkeys(row["algorithm"] for row in rows))
    kinds = list(dict.fromkeys(row["preferences"] for row in rows))
    columns = min(_COLUMNS, len(measures))
    lines = -(-len(measures) // columns)
    names = [fold_label(name) for name in display_names(rows).values()]
    tall = max(0.095 * len(kinds) + 0.09, 0.125 * max(name.count("\n") + 1 for name in names))
    each = max(1.3, len(algorithms) * tall + 0.55)
    figure = canvas(7.2, lines * each + 0.3)
    grid = figure.subplots(lines, columns, squeeze=False)
    for index, axes in enumerate(grid.flat):
        if index >= len(measures):
            axes.axis("off")
            continue
        _panel(axes, {**comparison, "rows": rows}, measures[index], algorithms, kinds)
        if index % columns:
            axes.tick_params(labelleft=False)
    known = [name for name in _DASHES if name in comparison or any(name in row for row in rows)]
    handles = _legend([] if single_objective else kinds, known)
    if handles:
        columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
        figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _legend(kinds: Sequence[str], baselines: Sequence[Baseline]) -> list[Artist]:
    colours = [PALETTE[index % len(PALETTE)] for index in range(len(kinds))]
    handles: list[Artist] = [
        Patch(color=colour, label=kind) for colour, kind in zip(colours, kinds, strict=True)
    ]
    for name in baselines:
        handles.append(Line2D([], [], color=GREY, linewidth=1, linestyle=_DASHES[name], label=name))
    return handles


def _panel(
    axes: Axes,
    comparison: ComparisonResults,
    measure: Measure,
    algorithms: Sequence[str],
    kinds: Sequence[str],
) -> None:
    means, stds = measure_arrays(comparison["rows"], measure.name, algorithms, kinds)
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
    names = display_names(comparison["rows"])
    axes.set_yticks(range(len(algorithms)), [fold_label(names[name]) for name in algorithms])
    axes.set_ylim(len(algorithms) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.set_title(measure.label + measure.arrow)
    for baseline in _DASHES if measure.better else ():
        _baseline(axes, baseline, baseline_values(comparison, baseline, measure.name))


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


def _baseline(axes: Axes, baseline: Baseline, values: Mapping[str, float]) -> None:
    """Draw lines in the colours of their distributions; text where lines would squeeze the rest."""
    low, high = axes.get_xlim()
    room = 0.3 * (high - low)
    if all(low - room <= value <= high + room for value in values.values()):
        for index, (kind, value) in enumerate(values.items()):
            colour = PALETTE[index % len(PALETTE)] if kind else GREY
            axes.axvline(
                value, color=colour, linewidth=1, linestyle=_DASHES[baseline], gid=baseline
            )
    else:
        texts = sorted({number(value, 3) for value in values.values()})
        parts = [axes.get_xlabel(), f"{baseline}: {' / '.join(texts)}"]
        axes.set_xlabel("; ".join(filter(None, parts)), fontsize=6.5, color=GREY)
