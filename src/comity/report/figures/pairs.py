"""Panels of pairs of objectives, and what pictures of objective vectors share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.colours import FAINT
from comity.report.figures.style import canvas
from comity.report.measures import target_label

DOT = 4.6  # diameter of a dot in points


@dataclass(frozen=True)
class Pairs:
    """Figure with one panel per pair of dimensions: a single one, or a lower triangle."""

    figure: Figure
    panels: dict[tuple[int, int], Axes]
    corner: Axes
    """Place of a legend: the only panel, or the empty corner."""


def pairs(labels: Sequence[str]) -> Pairs:
    """Return empty panels for dimensions with these labels; only outer panels show them."""
    side = len(labels) - 1
    figure = canvas(4.4, 3.2) if side == 1 else canvas(2.4 * side + 0.4, 2.1 * side + 0.3)
    grid = figure.subplots(side, side, squeeze=False)
    panels = {}
    for row in range(side):
        for column in range(side):
            axes = grid[row, column]
            if column > row:
                axes.axis("off")
                continue
            axes.set_xlabel(labels[column])
            axes.set_ylabel(labels[row + 1])
            axes.grid(True)
            axes.label_outer()
            panels[column, row + 1] = axes
    return Pairs(figure, panels, grid[0, side - 1])


def frame(axes: Axes, low: FloatArray, high: FloatArray, target: FloatArray | None) -> None:
    """Fix a panel's limits, and draw the known front beneath all else."""
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    if target is not None:
        axes.scatter(target[:, 0], target[:, 1], s=34, color=FAINT, edgecolor="none", zorder=1)


def attained(axes: Axes, front: FloatArray, low: FloatArray, **look: Any) -> None:
    """Draw the rim of the region that a front of two objectives dominates."""
    x = [low[0], *front[:, 0], front[-1, 0]]
    y = [front[0, 1], *front[:, 1], low[1]]
    axes.step(x, y, where="pre", zorder=2, **look)


def off_axes(points: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """Return a note on the points that lie outside the limits; empty if there are none."""
    off = int(((points < low) | (points > high)).any(axis=1).sum())
    return (
        f"{off} {'point' if off == 1 else 'points'} off the axes, drawn at the rim" if off else ""
    )


def dot(marker: str, colour: Any, label: str, **look: Any) -> Line2D:
    """Return a dot for a legend."""
    return Line2D(
        [], [], linestyle="", marker=marker, color=colour, markersize=DOT, label=label, **look
    )


def target_dot(problem: Problem) -> Line2D:
    """Return the known front's dot for a legend."""
    return dot("o", FAINT, target_label(problem))
