"""Where a search looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import BoolArray, FloatArray, IntArray
from comity.problems import Objective
from comity.report.figures.pairs import DOT, dot, pairs
from comity.report.figures.style import FAINT, GREY, PALETTE, TIMES, canvas, styled
from comity.searches import Search


@dataclass(frozen=True)
class _Tried:
    """The candidates of a search in the order in which they were tried."""

    weights: FloatArray
    iterations: IntArray
    """The iteration of each, from 1."""
    fruitful: BoolArray
    """Whether a model of the final front comes from it."""

    @property
    def colours(self) -> ScalarMappable:
        return ScalarMappable(Normalize(1, max(2, self.iterations.max())), TIMES)


@styled
def weights(search: Search) -> Figure:
    """Every weight that was tried, the later the darker; ringed if it led to the front.

    Of two objectives in the order of trying; of more without the last one, whose weight is
    what the others leave.
    """
    tried, objectives = _tried(search), search.configuration.problem.objectives
    made = _in_order if len(objectives) == 2 else _in_pairs
    return made(tried, objectives)


def _tried(search: Search) -> _Tried:
    origins = {(point["iteration"], point["candidate"]) for point in search.results["front"]}
    rows = [
        (entry["iteration"], number, candidate["weight"])
        for entry in search.history
        for number, candidate in enumerate(entry["candidates"])
    ]
    return _Tried(
        weights=np.array([weight for _, _, weight in rows], dtype=float),
        iterations=np.array([iteration for iteration, _, _ in rows], dtype=np.int64),
        fruitful=np.array([row[:2] in origins for row in rows], dtype=bool),
    )


def _in_order(tried: _Tried, objectives: Sequence[Objective]) -> Figure:
    figure = canvas(5.4, 2.7)
    axes = figure.subplots()
    order = np.arange(1, len(tried.weights) + 1, dtype=float)
    _dots(axes, order, tried.weights[:, 0], tried)
    axes.set_xlabel("candidate")
    axes.set_ylabel(f"weight on {objectives[0].name}")
    axes.set_ylim(-0.04, 1.04)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
    axes.grid(True, axis="y")
    _explain(figure, [axes], tried)
    return figure


def _in_pairs(tried: _Tried, objectives: Sequence[Objective]) -> Figure:
    made = pairs([f"weight on {objective.name}" for objective in objectives[:-1]])
    for (x, y), axes in made.panels.items():
        axes.plot([0, 1], [1, 0], color=FAINT, linewidth=0.8, zorder=1)  # all weight on the two
        _dots(axes, tried.weights[:, x], tried.weights[:, y], tried)
        axes.set_xlim(-0.04, 1.04)
        axes.set_ylim(-0.04, 1.04)
    rest = f"the rest is the weight on {objectives[-1].name}"
    look: dict[str, Any] = {"fontsize": 7, "color": GREY, "transform": made.corner.transAxes}
    made.corner.text(0.97, 0.95, rest, ha="right", va="top", **look)
    _explain(made.figure, list(made.panels.values()), tried)
    return made.figure


def _dots(axes: Axes, x: FloatArray, y: FloatArray, tried: _Tried) -> None:
    axes.scatter(
        x, y, s=DOT**2, color=tried.colours.to_rgba(tried.iterations), linewidth=0, zorder=3
    )
    ring = tried.fruitful
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


def _explain(figure: Figure, panels: list[Axes], tried: _Tried) -> None:
    bar = figure.colorbar(tried.colours, ax=panels, aspect=30, pad=0.02)
    bar.set_label("iteration")
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    bar.outline.set_visible(False)
    ring = dot("o", PALETTE[1], "led to a point of the front", markerfacecolor="none")
    handles = [dot("o", GREY, "tried"), ring]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
