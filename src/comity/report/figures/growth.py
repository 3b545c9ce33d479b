"""How the hypervolume of searches grew."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.typing import FloatArray
from comity.report.figures.style import (
    DASHES,
    GREY,
    canvas,
    legend_above,
    log_scale,
    plain_numbers,
    series,
    styled,
    thousands,
)
from comity.report.measures import vector
from comity.report.series.growth import HYPERVOLUME, Growths


@styled
def growth(told: Growths) -> Figure:
    """The hypervolume and, where the best is known, how much of it is missing.

    Good searches end so near to the best that only a logarithmic axis tells them apart.
    """
    known = told.optimum is not None
    figure = canvas(7.2 if known else 4.4, 2.9)
    panels = figure.subplots(1, 2 if known else 1, squeeze=False)[0]
    _hypervolume(panels[0], told)
    if known:
        _missing(panels[1], told)
    for axes in panels:
        axes.grid(True, axis="y")
        axes.set_xlim(left=0)
        thousands(axes.xaxis)
        axes.locator_params(axis="x", nbins=5, integer=True)
    figure.supxlabel(told.across, fontsize=8)
    legend_above(figure, panels[0])
    return figure


def _hypervolume(axes: Axes, told: Growths) -> None:
    for place, line in enumerate(told.lines):
        _curve(axes, place, line.label, line.x, line.mean, line.std)
    if told.optimum is not None:
        dashes = (0, (6, 2))
        axes.axhline(
            told.optimum, color="#222222", linewidth=0.9, linestyle=dashes, label=told.target
        )
    axes.set_ylabel(HYPERVOLUME)
    plain_numbers(axes.yaxis)
    axes.set_title(f"reference point {vector(told.reference_point)}", fontsize=7, color=GREY)


def _missing(axes: Axes, told: Growths) -> None:
    missing = [told.missing(line) for line in told.lines]
    for place, (line, y) in enumerate(zip(told.lines, missing, strict=True)):
        _curve(axes, place, line.label, line.x, y, line.std)
    axes.set_ylabel(f"missing to the {told.target}")
    log_scale(axes, np.concatenate(missing))


def _curve(
    axes: Axes, place: int, label: str, x: FloatArray, y: FloatArray, std: FloatArray
) -> None:
    """Steps: an archive stays as it is until the next iteration ends."""
    # dashes from the second line on: one that lies on another must not hide it
    look = {**series(place), "linestyle": DASHES[place % len(DASHES)]}
    axes.step(x, y, where="post", label=label, marker="o", markersize=2.2, **look)
    if std.any():
        low, high = np.maximum(y - std, 0.0), y + std
        axes.fill_between(x, low, high, step="post", color=look["color"], alpha=0.12, linewidth=0)
