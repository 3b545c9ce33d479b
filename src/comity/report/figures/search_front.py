"""Front of a search at several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.colours import GREY, PALETTE, TIMES
from comity.report.figures.pairs import (
    DOT,
    attained,
    dot,
    frame,
    off_axes,
    pairs,
    target_dot,
)
from comity.report.figures.style import styled
from comity.report.measures import objective_label
from comity.report.series.growth import Milestone, milestones
from comity.report.series.limits import front_limits
from comity.searches import Search


@styled
def search_front(search: Search) -> Figure:
    """Draw the archive's front at several times, the later the darker, over the known front.

    A point has the colour of the time by which it was found; it is hollow if another one
    dominated it later.
    """
    problem = search.configuration.problem
    times, target = milestones(search.history), problem.target()
    grid = pairs([objective_label(objective) for objective in problem.objectives])
    for pair, axes in grid.panels.items():
        _panel(axes, times, target, pair)
    handles = _legend(times, problem)
    if search.results["cut_by_reference_point"]:
        handles.append(_reference(grid.panels, search.results["reference_point"]))
    grid.corner.legend(handles=handles, loc="best" if len(grid.panels) == 1 else "center")
    return grid.figure


def _panel(
    axes: Axes, times: Sequence[Milestone], target: FloatArray | None, pair: tuple[int, int]
) -> None:
    points = np.concatenate([time.fresh for time in times])[:, pair]
    known = times[-1].front if target is None else target
    low, high = front_limits(points, known[:, pair])
    frame(axes, low, high, None if target is None else target[:, pair])
    final = {tuple(point) for point in times[-1].front.tolist()}
    for time in times:
        colour = TIMES(time.lateness)
        if time.front.shape[1] == 2:
            attained(axes, time.front, low, color=colour, linewidth=0.9)
        stays = np.array([tuple(point) in final for point in time.fresh.tolist()], dtype=bool)
        shown = np.clip(time.fresh[:, pair], low, high)
        for some, inside in ((shown[~stays], "white"), (shown[stays], colour)):
            axes.scatter(
                some[:, 0],
                some[:, 1],
                s=DOT**2,
                facecolor=[inside],
                edgecolor=[colour],
                linewidth=0.8,
                zorder=3,
                clip_on=False,
            )
    if note := off_axes(points, low, high):
        axes.set_title(note, fontsize=6, color=GREY)


def _legend(times: Sequence[Milestone], problem: Problem) -> list[Line2D]:
    handles = [dot("o", TIMES(time.lateness), time.label) for time in times]
    if sum(len(time.fresh) for time in times) > len(times[-1].front):
        handles.append(dot("o", GREY, "dominated later", markerfacecolor="white"))
    if problem.target() is not None:
        handles.append(target_dot(problem))
    return handles


def _reference(panels: Mapping[tuple[int, int], Axes], point: Sequence[float]) -> Line2D:
    """Draw the lines below or left of which a point counts nothing for the hypervolume."""
    look: dict[str, Any] = {"color": PALETTE[1], "linewidth": 0.8, "linestyle": (0, (2, 1.5))}
    for (x, y), axes in panels.items():
        axes.axvline(point[x], **look)
        axes.axhline(point[y], **look)
    return Line2D([], [], label="reference point", **look)
