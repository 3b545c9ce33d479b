"""Preference weights that a search candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import FloatArray
from comity.problems import Objective
from comity.report.colours import FAINT, GREY, PALETTE, TIMES
from comity.report.figures.pairs import DOT, dot, pairs
from comity.report.figures.style import canvas, styled
from comity.report.series.candidates import Candidates, candidates_of
from comity.searches import Search


@styled
def weights(search: Search) -> Figure:
    """Draw every weight that was tried, the later the darker; ringed if it led to the front.

    Two objectives are drawn in the order of trying; more of them in pairs without the last one,
    whose weight is what the others leave.
    """
    candidates, objectives = candidates_of(search), search.configuration.problem.objectives
    draw = _in_order if len(objectives) == 2 else _in_pairs
    return draw(candidates, objectives)


def _colours(candidates: Candidates) -> ScalarMappable:
    """Return the colours of iterations."""
    return ScalarMappable(Normalize(1, max(2, candidates.iterations.max())), TIMES)


def _in_order(candidates: Candidates, objectives: Sequence[Objective]) -> Figure:
    figure = canvas(5.4, 2.7)
    axes = figure.subplots()
    order = np.arange(1, len(candidates.weights) + 1, dtype=float)
    _dots(axes, order, candidates.weights[:, 0], candidates)
    axes.set_xlabel("candidate")
    axes.set_ylabel(f"weight on {objectives[0].name}")
    axes.set_ylim(-0.04, 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
    axes.grid(True, axis="y")
    _explain(figure, [axes], candidates)
    return figure


def _in_pairs(candidates: Candidates, objectives: Sequence[Objective]) -> Figure:
    grid = pairs([f"weight on {objective.name}" for objective in objectives[:-1]])
    for (x, y), axes in grid.panels.items():
        axes.plot([0, 1], [1, 0], color=FAINT, linewidth=0.8, zorder=1)  # all weight on the two
        _dots(axes, candidates.weights[:, x], candidates.weights[:, y], candidates)
        axes.set_xlim(-0.04, 1.04)
        axes.set_ylim(-0.04, 1.04)
    rest = f"the rest is the weight on {objectives[-1].name}"
    look: dict[str, Any] = {"fontsize": 7, "color": GREY, "transform": grid.corner.transAxes}
    grid.corner.text(0.97, 0.95, rest, ha="right", va="top", **look)
    _explain(grid.figure, list(grid.panels.values()), candidates)
    return grid.figure


def _dots(axes: Axes, x: FloatArray, y: FloatArray, candidates: Candidates) -> None:
    axes.scatter(
        x,
        y,
        s=DOT**2,
        color=_colours(candidates).to_rgba(candidates.iterations),
        linewidth=0,
        zorder=3,
    )
    ring = candidates.fruitful
    axes.scatter(
        x[ring],
        y[ring],
        s=(1.7 * DOT) ** 2,
        facecolor="none",
        edgecolor=PALETTE[1],
        linewidth=1.0,
        zorder=4,
        gid="ring",
    )


def _explain(figure: Figure, panels: list[Axes], candidates: Candidates) -> None:
    bar = figure.colorbar(_colours(candidates), ax=panels, aspect=30, pad=0.02)
    bar.set_label("iteration")
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    bar.outline.set_visible(False)
    ring = dot("o", PALETTE[1], "led to a point of the front", markerfacecolor="none")
    handles = [dot("o", GREY, "tried"), ring]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
