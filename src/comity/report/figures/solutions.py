"""Solution spaces: all models of a comparison among the objectives, one panel per entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.core.pareto import nondominated
from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.colours import GREY, PALETTE
from comity.report.figures.pairs import dot, frame, off_axes, target_dot
from comity.report.figures.style import canvas, legend_columns, styled
from comity.report.measures import fold_label, objective_label
from comity.report.series.limits import front_limits
from comity.report.series.solutions import Solutions

_ACROSS = 5  # entries side by side
_SIDE = 1.55  # inches of a panel


@styled
def solutions(sets: Solutions, problem: Problem) -> Figure | None:
    """Draw all models of each entry over the known front; one colour per preference distribution.

    With more than two objectives there is one row of panels per pair of them. Large points are
    those that no other model of the same entry dominates. None if there is nothing to draw.
    """
    pairs = list(combinations(range(len(problem.objectives)), 2))
    if not sets or not pairs:
        return None
    across = min(len(sets), _ACROSS)
    lines = -(-len(sets) // across)
    figure = canvas(max(4.4, _SIDE * across + 0.6), (_SIDE * len(pairs) + 0.2) * lines + 0.4)
    grid = figure.subplots(lines * len(pairs), across, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    target = problem.target()
    every = np.concatenate([points for kinds in sets.values() for points in kinds.values()])
    limits = front_limits(every, target)
    labels = [objective_label(objective) for objective in problem.objectives]
    kinds = list(dict.fromkeys(kind for by_kind in sets.values() for kind in by_kind))
    colours = {kind: PALETTE[index % len(PALETTE)] for index, kind in enumerate(kinds)}
    for place, (entry, by_kind) in enumerate(sets.items()):
        line, column = divmod(place, across)
        for row, pair in enumerate(pairs):
            axes = grid[line * len(pairs) + row, column]
            low, high = (edge[list(pair)] for edge in limits)
            axes.axis("on")
            frame(axes, low, high, None if target is None else target[:, pair])
            _scatter(axes, by_kind, pair, (low, high), colours)
            axes.set_xlabel(labels[pair[0]], fontsize=6)
            if column == 0:
                axes.set_ylabel(labels[pair[1]], fontsize=6)
            axes.tick_params(labelsize=5, labelleft=column == 0)
        grid[line * len(pairs), column].set_title(fold_label(entry), fontsize=6.5)
    handles = [dot("o", colours[kind], kind) for kind in kinds if kind]
    if target is not None:
        handles.append(target_dot(problem))
    if handles:
        columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
        figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _scatter(
    axes: Axes,
    by_kind: Mapping[str, FloatArray],
    pair: Sequence[int],
    limits: tuple[FloatArray, FloatArray],
    colours: Mapping[str, str],
) -> None:
    """Draw the models of one entry on two objectives."""
    points = np.concatenate(list(by_kind.values()))
    hues = np.array([colours[kind] for kind, some in by_kind.items() for _ in some])
    best = nondominated(points)
    shown = np.clip(points[:, list(pair)], *limits)
    for some, size, strength in ((~best, 5, 0.35), (best, 14, 0.9)):
        x, y = shown[some].T
        axes.scatter(
            x, y, s=size, c=hues[some], alpha=strength, linewidth=0, clip_on=False, zorder=3
        )
    note = off_axes(points[:, list(pair)], *limits).replace(", ", ",\n")
    axes.text(0.03, 0.03, note, transform=axes.transAxes, fontsize=4.5, color=GREY)
    axes.locator_params(nbins=4)
    axes.grid(True)
