"""Growth of the hypervolume of searches."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.typing import FloatArray
from comity.report.colours import GREY
from comity.report.figures.style import (
    DASHES,
    canvas,
    legend_above,
    line_style,
    log_scale,
    plain_numbers,
    styled,
    thousands,
)
from comity.report.measures import vector
from comity.report.series.growth import HYPERVOLUME, Growths


@styled
def growth(growths: Growths) -> Figure:
    """Draw the hypervolume and, where the best is known, how much of it is missing.

    Good searches end so near to the best that they differ only on a logarithmic axis.
    """
    known = growths.optimum is not None
    figure = canvas(7.2 if known else 4.4, 2.9)
    panels = figure.subplots(1, 2 if known else 1, squeeze=False)[0]
    _hypervolume(panels[0], growths)
    if known:
        _missing(panels[1], growths)
    for axes in panels:
        axes.grid(True, axis="y")
        axes.set_xlim(left=0)
        thousands(axes.xaxis)
        axes.locator_params(axis="x", nbins=5, integer=True)
    figure.supxlabel(growths.across, fontsize=8)
    legend_above(figure, panels[0])
    return figure


def _hypervolume(axes: Axes, growths: Growths) -> None:
    for index, line in enumerate(growths.lines):
        _curve(axes, index, line.label, line.x, line.mean, line.std)
    if growths.optimum is not None:
        dashes = (0, (6, 2))
        axes.axhline(
            growths.optimum, color="#222222", linewidth=0.9, linestyle=dashes, label=growths.target
        )
    axes.set_ylabel(HYPERVOLUME)
    plain_numbers(axes.yaxis)
    axes.set_title(f"reference point {vector(growths.reference_point)}", fontsize=7, color=GREY)


def _missing(axes: Axes, growths: Growths) -> None:
    missing = [growths.missing(line) for line in growths.lines]
    for index, (line, y) in enumerate(zip(growths.lines, missing, strict=True)):
        _curve(axes, index, line.label, line.x, y, line.std)
    axes.set_ylabel(f"missing to the {growths.target}")
    log_scale(axes, np.concatenate(missing))


def _curve(
    axes: Axes, index: int, label: str, x: FloatArray, y: FloatArray, std: FloatArray
) -> None:
    """Draw steps: an archive stays as it is until the next iteration ends."""
    # dashes from the second line on: one that lies on another must not hide it
    look = {**line_style(index), "linestyle": DASHES[index % len(DASHES)]}
    axes.step(x, y, where="post", label=label, marker="o", markersize=2.2, **look)
    if std.any():
        low, high = np.maximum(y - std, 0.0), y + std
        axes.fill_between(x, low, high, step="post", color=look["color"], alpha=0.12, linewidth=0)
