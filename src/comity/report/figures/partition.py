"""Training samples per client and class."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from comity.report.colours import PALETTE
from comity.report.figures.style import canvas, styled
from comity.report.names import turned
from comity.report.series.partition import MOST_CLIENTS, class_counts
from comity.runs.directory import Run

_NAMED = 40  # more clients or classes have room for some of their names only


@styled
def partition(run: Run) -> Figure | None:
    """Draw bubbles whose areas are numbers of training samples, clients across, classes up.

    None where labels are no classes, or where there are too many clients.
    """
    counts = class_counts(run)
    if counts is None or len(counts) > MOST_CLIENTS:
        return None
    clients, classes = counts.shape
    across, up = min(0.26, 6.3 / clients), min(0.22, 8.0 / classes)  # a cell, in inches
    figure = canvas(max(3.4, clients * across + 0.9), classes * up + 1.1)
    axes = figure.subplots()
    # of the largest bubble, in points: where cells are narrow it may overlap its neighbours
    diameter = 72 * min(0.92 * np.sqrt(across * up), 1.3 * min(across, up))
    area = diameter**2 / counts.max()  # of one sample, in square points
    x, y = np.nonzero(counts)
    axes.scatter(x, y, area * counts[x, y], color=PALETTE[0], alpha=0.8, linewidth=0)
    axes.set_xlim(-0.7, clients - 0.3)
    axes.set_ylim(-0.7, classes - 0.3)
    axes.set(xlabel="client", ylabel="class")
    names = run.configuration.get_names()
    for axis, count in ((axes.xaxis, clients), (axes.yaxis, classes)):
        if count <= _NAMED and axis is axes.xaxis:
            axis.set_ticks(range(count), names, rotation=turned(names))
        elif count <= _NAMED:
            axis.set_ticks(range(count))
        else:
            axis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    axes.tick_params(length=0)
    axes.grid(True)
    disc: dict[str, Any] = {
        "marker": "o",
        "linestyle": "",
        "color": PALETTE[0],
        "mew": 0,
        "alpha": 0.8,
    }
    examples = _examples(int(counts.max()))
    handles = [
        Line2D([], [], markersize=float(np.sqrt(area * n)), label=f"{n:,}", **disc)
        for n in examples
    ]
    handles[-1].set_label(f"{examples[-1]:,} training samples")
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def _examples(largest: int) -> list[int]:
    """Return numbers for a legend: the largest, and a quarter and a sixteenth of it."""
    return sorted({largest, max(1, largest // 4), max(1, largest // 16)})
