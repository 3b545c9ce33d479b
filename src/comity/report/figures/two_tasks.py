"""Two clients with two tasks: accuracies of all models, federated and alone."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.typing import FloatArray
from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import MARKERS, canvas, styled
from comity.runs.reproduction_schema import TwoTaskResults, TwoTaskRow

NAMES = {"no-communication": "alone", "fedavg": "FedAvg"}


@styled
def two_tasks(results: TwoTaskResults) -> Figure:
    """Draw all models, from far and from near; a line joins the means of those trained alone."""
    figure = canvas(6.4, 3.1)
    far, near = figure.subplots(1, 2)
    for axes in (far, near):
        for index, row in enumerate(results["rows"]):
            _scatter(axes, row, index)
        axes.set(xlabel="accuracy on the left digit", ylabel="accuracy on the right digit")
        axes.set_aspect("equal")
        axes.grid(True)
    far.set(xlim=(0, 1), ylim=(0, 1), title="all weights")
    close = np.concatenate([_means(row, inner=True) for row in results["rows"]])
    low, high = close.min() - 0.015, close.max() + 0.015
    near.set(xlim=(low, high), ylim=(low, high), title="the framed part")
    corners = [low, high, high, low, low]
    far.plot(corners, [low, low, high, high, low], color=GREY, linewidth=0.6)
    far.legend(loc="lower left")
    return figure


def _scatter(axes: Axes, row: TwoTaskRow, index: int) -> None:
    colour = PALETTE[(index + 1) % 2]
    axes.scatter(
        [point["left"] for point in row["points"]],
        [point["right"] for point in row["points"]],
        s=16,
        marker=MARKERS[index],
        color=colour,
        edgecolor="white",
        linewidth=0.4,
        label=NAMES[row["algorithm"]],
        zorder=3,
    )
    if row["algorithm"] == "no-communication":
        axes.plot(*_means(row).T, color=colour, linewidth=0.8)


def _means(row: TwoTaskRow, *, inner: bool = False) -> FloatArray:
    """Return mean accuracies (weights x digits) in the order of the weight on the left digit.

    ``inner`` leaves out clients that care about one digit only.
    """
    weights = sorted({point["weight"] for point in row["points"]})
    return np.array(
        [
            np.mean([[p["left"], p["right"]] for p in row["points"] if p["weight"] == w], axis=0)
            for w in weights
            if not inner or 0 < w < 1
        ]
    )
