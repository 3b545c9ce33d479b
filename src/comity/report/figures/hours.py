"""Quality over the hours of a contact plan, and ages of updates."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import canvas, legend_above, line_style, log_scale, styled
from comity.report.measures import display_names, has_single_objective
from comity.report.series.curves import MEANINGS, Kind, curves, validation_label
from comity.report.series.hours import ALONE, ages_of, hour_curves, hours_of, known
from comity.report.series.learning import Runs, has_regret, y_label
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults

_KINDS: tuple[Kind, ...] = ("kept", "trained", "received")
_MARKED = 15  # lines with at most so many points get markers


@styled
def hours(run: Run) -> Figure | None:
    """Draw means over clients against the hours of the contact plan; None without links."""
    if run.configuration.links is None:
        return None
    history, times = curves(run), hours_of(run)
    figure = canvas(5.0, 2.9)
    axes = figure.subplots()
    marker = "o" if len(times) <= _MARKED else ""
    for index, kind in enumerate(_KINDS):
        shown = known(history, kind)
        if not shown.any():
            continue
        line = history.mean(kind)[shown]
        label, look = MEANINGS[kind], line_style(index)
        axes.plot(times[shown], line, label=label, marker=marker, markersize=3, **look)
    axes.set_ylabel(validation_label(run))
    _hours_axis(axes, float(times[-1]))
    legend_above(figure, axes)
    return figure


@styled
def hours_compared(comparison: ComparisonResults, runs: Runs) -> Figure | None:
    """Draw kept models' quality against hours; staying alone is the line to beat."""
    lines = hour_curves(comparison, runs)
    if not lines:
        return None
    kinds = list(dict.fromkeys(kind for _, kind in lines))
    names = display_names(comparison["rows"])
    figure = canvas(max(4.4, 2.6 * len(kinds)), 3.0)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        for index, (name, label) in enumerate(names.items()):
            if (name, kind) not in lines:
                continue
            curve, alone = lines[name, kind], name.partition("[")[0] == ALONE
            look: dict[str, Any] = line_style(index)
            if alone:
                look = {"color": "#222222", "linestyle": (0, (4, 1.5)), "linewidth": 1.8}
            text = f"{label} (to beat)" if alone else label
            axes.plot(curve.hours, curve.mean, label=text, zorder=3 if alone else 2, **look)
            low, high = curve.mean - curve.std, curve.mean + curve.std
            axes.fill_between(curve.hours, low, high, color=look["color"], alpha=0.09, linewidth=0)
        axes.set_title("" if has_single_objective(comparison) else kind)
        _hours_axis(axes, max(curve.hours[-1] for curve in lines.values()))
    if has_regret(runs):
        log_scale(panels[0], np.concatenate([curve.mean for curve in lines.values()]))
    panels[0].set_ylabel(y_label(runs))
    legend_above(figure, panels[0])
    return figure


@styled
def ages(run: Run) -> Figure | None:
    """Draw how many updates were late by how many mixings; None where none could be."""
    counts = ages_of(run)
    if not counts:
        return None
    figure = canvas(4.0, 2.3)
    axes = figure.subplots()
    axes.bar(list(counts), list(counts.values()), width=0.8, color=PALETTE[0])
    links = run.configuration.links
    if links is not None and links.oldest < max(counts):
        axes.axvline(links.oldest + 0.5, color=GREY, linewidth=0.9, linestyle=(0, (3, 2)))
    axes.set(xlabel="age: mixings that changed the client's model meanwhile", ylabel="updates")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.grid(True, axis="y")
    return figure


def _hours_axis(axes: Axes, end: float) -> None:
    axes.set(xlabel="hours", xlim=(0, end * 1.01))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 3, 6, 10]))
    axes.grid(True, axis="y")
