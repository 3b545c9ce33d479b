"""What the models of clients with data are seen against: the constant classifier, strictness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from comity.core.pareto import above
from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.figures.pairs import dot, limits
from comity.report.figures.style import GREY
from comity.report.measures import number, vector

CONSTANT = "constant classifier"
_NEAR = 0.2  # scores are shares: what differs by a fifth still belongs into one picture
_CROSS: dict[str, Any] = {"markersize": 6.5, "markeredgewidth": 1.4}
_LINES: dict[str, Any] = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (3, 2))}


@dataclass(frozen=True)
class Marks:
    """One point each, or None; problems with environments have neither."""

    trivial: FloatArray | None
    """The constant classifier, mean over clients."""
    strict: FloatArray | None
    """The strict reference point."""


def marks_of(results: Mapping[str, Any], problem: Problem) -> Marks:
    """Those of a run, or of a comparison whose results know the strict reference point."""
    means = [results["trivial"].get(objective.name) for objective in problem.objectives]
    trivial, strict = np.array(means, dtype=float), results.get("strict_reference_point")
    return Marks(
        trivial if np.isfinite(trivial).all() else None,
        None if strict is None else np.array(strict, dtype=float),
    )


def view(
    points: FloatArray, target: FloatArray | None, marks: Marks
) -> tuple[FloatArray, FloatArray]:
    """Limits for all objectives; models of no use may lie outside them."""
    if marks.trivial is None and marks.strict is None and len(points):
        return limits(points, target)
    useful = points if marks.strict is None else points[above(points, marks.strict.tolist())]
    seen = points if marks.trivial is None else np.vstack([points, marks.trivial])
    sets = [known for known in (target, useful, points, seen) if known is not None and len(known)]
    if not sets:
        return np.zeros(points.shape[1]), np.ones(points.shape[1])
    low, high = limits(seen, sets[0], _NEAR)
    if marks.strict is not None:  # a line is drawn where it does not squeeze the rest
        size = high - low
        near = (marks.strict < low) & (marks.strict > low - 0.4 * size)
        low = np.where(near, marks.strict - 0.03 * size, low)
    return low, high


def draw_marks(
    axes: Axes, marks: Marks, pair: tuple[int, int], low: FloatArray, high: FloatArray
) -> None:
    """Put them into a panel of two objectives with these limits."""
    if marks.strict is not None:
        x, y = marks.strict[list(pair)]
        if low[0] < x < high[0]:
            axes.axvline(x, gid="strict", **_LINES)
        if low[1] < y < high[1]:
            axes.axhline(y, gid="strict", **_LINES)
    if marks.trivial is not None:
        place = marks.trivial[list(pair)]
        x, y = np.clip(place, low, high)
        axes.plot(
            x,
            y,
            marker="x",
            color="#222222",
            clip_on=False,
            zorder=4,
            gid="trivial",
            **_CROSS,
        )
        if not np.allclose(place, (x, y)):
            text = f"off the axes, at ({number(place[0])}, {number(place[1])})"
            axes.annotate(
                text,
                (x, y),
                (0, -5),
                textcoords="offset points",
                ha="left" if 2 * x < low[0] + high[0] else "right",
                va="top",
                fontsize=6,
                color=GREY,
                zorder=4,
            )


def mark_handles(marks: Marks) -> list[Line2D]:
    """For a legend; a line may lie off the axes, so that its place is told."""
    handles = []
    if marks.trivial is not None:
        handles.append(dot("x", "#222222", CONSTANT, markeredgewidth=1.4))
    if marks.strict is not None:
        label = f"strict reference point {vector(marks.strict)}"
        handles.append(Line2D([], [], label=label, **_LINES))
    return handles
