"""The constant classifier and the strict reference point in panels of two objectives."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from comity.core.typing import FloatArray
from comity.report.colours import GREY
from comity.report.figures.pairs import dot
from comity.report.measures import number, vector
from comity.report.series.baselines import CONSTANT, Baselines

_CROSS: dict[str, Any] = {"markersize": 6.5, "markeredgewidth": 1.4}
_LINES: dict[str, Any] = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (3, 2))}


def draw_baselines(
    axes: Axes, baselines: Baselines, pair: tuple[int, int], low: FloatArray, high: FloatArray
) -> None:
    """Draw baselines into a panel of two objectives with these limits."""
    if baselines.strict is not None:
        x, y = baselines.strict[list(pair)]
        if low[0] < x < high[0]:
            axes.axvline(x, gid="strict", **_LINES)
        if low[1] < y < high[1]:
            axes.axhline(y, gid="strict", **_LINES)
    if baselines.trivial is not None:
        point = baselines.trivial[list(pair)]
        x, y = np.clip(point, low, high)
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
        if not np.allclose(point, (x, y)):
            text = f"off the axes, at ({number(point[0])}, {number(point[1])})"
            left, lower = 2 * np.array([x, y]) < low + high  # the text stays inside the panel
            axes.annotate(
                text,
                (x, y),
                (5 if left else -5, 5 if lower else -5),
                textcoords="offset points",
                ha="left" if left else "right",
                va="bottom" if lower else "top",
                fontsize=6,
                color=GREY,
                zorder=4,
            )


def baseline_handles(baselines: Baselines) -> list[Line2D]:
    """Return handles for a legend, with the strict point: its lines may lie off the axes."""
    handles = []
    if baselines.trivial is not None:
        handles.append(dot("x", "#222222", CONSTANT, markeredgewidth=1.4))
    if baselines.strict is not None:
        label = f"strict reference point {vector(baselines.strict)}"
        handles.append(Line2D([], [], label=label, **_LINES))
    return handles
