"""Where the clients' models lie among the objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from comity.problems import Problem
from comity.report.curves import Floats, objectives_of, preferences_of
from comity.report.figures.pairs import DOT, dot, frame, limits, pairs, target_dot
from comity.report.figures.style import GREY, MARKERS, PALETTE, WEIGHTS, styled, title_of
from comity.report.measures import number
from comity.runs import Run

_GOLDEN = np.pi * (3.0 - np.sqrt(5.0))


@dataclass(frozen=True)
class _Scene:
    """Everything that the panels share."""

    points: Floats
    target: Floats | None
    ranks: Floats
    """Neighbours in rank stand side by side."""
    colours: NDArray[Any]
    markers: Sequence[str]


@styled
def front(run: Run) -> Figure:
    """One dot a client, coloured by its preference, over the known front or reference set.

    Clients with equal returns stand around their common point, with their number beside it.
    """
    problem, preferences = run.configuration.get_problem(), preferences_of(run)
    if len(problem.objectives) == 2:
        return _one_panel(problem, preferences, objectives_of(run))
    return _pairs(problem, preferences, objectives_of(run))


def _one_panel(problem: Problem, preferences: Floats, points: Floats) -> Figure:
    made = pairs([title_of(objective) for objective in problem.objectives])
    markers = ["o"] * len(points)
    weights = preferences[:, 0]
    scene = _Scene(points, problem.target(), weights, WEIGHTS(weights), markers)
    _panel(made.corner, scene, (0, 1))
    mappable = ScalarMappable(Normalize(0, 1), WEIGHTS)
    bar = made.figure.colorbar(mappable, ax=made.corner, aspect=30, pad=0.02)
    bar.set_label(f"client's weight on {problem.objectives[0].name}")
    bar.outline.set_visible(False)
    handles = [dot("o", WEIGHTS(0.5), "client")]
    if scene.target is not None:
        handles.insert(0, target_dot(problem))
    made.corner.legend(handles=handles, loc="lower left")
    return made.figure


def _pairs(problem: Problem, preferences: Floats, points: Floats) -> Figure:
    """All pairs of objectives; colours and shapes say what a client cares for most."""
    objectives = problem.objectives
    made = pairs([title_of(objective) for objective in objectives])
    chief = preferences.argmax(axis=1)
    palette = np.array([PALETTE[i % len(PALETTE)] for i in range(len(objectives))])
    shapes = [MARKERS[i % len(MARKERS)] for i in range(len(objectives))]
    markers = [shapes[i] for i in chief]
    scene = _Scene(points, problem.target(), chief.astype(float), palette[chief], markers)
    for pair, axes in made.panels.items():
        _panel(axes, scene, pair)
    handles = [
        dot(shape, colour, f"mostly {objective.name} ({(chief == i).sum()})")
        for i, (objective, shape, colour) in enumerate(
            zip(objectives, shapes, palette, strict=True)
        )
    ]
    if scene.target is not None:
        handles.append(target_dot(problem))
    made.corner.legend(handles=handles, loc="center", title="clients who care")
    return made.figure


def _panel(axes: Axes, scene: _Scene, pair: tuple[int, int]) -> None:
    """Two of the objectives against each other."""
    target = None if scene.target is None else scene.target[:, pair]
    points = np.round(scene.points[:, pair], 6)
    low, high = limits(points, target)
    frame(axes, low, high, target)
    places, group, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    shown = np.clip(places, low, high)
    _flowers(axes, scene, shown, group.reshape(-1))
    for place, drawn, count in zip(places, shown, counts, strict=True):
        _note(axes, place, drawn, int(count))


def _flowers(axes: Axes, scene: _Scene, shown: Floats, group: NDArray[np.int64]) -> None:
    """Each client's dot; those of one place side by side like seeds of a sunflower."""
    for place, at in enumerate(shown):
        members = np.flatnonzero(group == place)
        members = members[np.argsort(scene.ranks[members], kind="stable")]
        for client, (dx, dy) in zip(members.tolist(), _seats(len(members)) / 72, strict=True):
            shift = ScaledTranslation(dx, dy, axes.figure.dpi_scale_trans)
            axes.plot(
                *at,
                marker=scene.markers[client],
                markersize=DOT,
                markerfacecolor=scene.colours[client],
                markeredgecolor="white",
                markeredgewidth=0.4,
                transform=axes.transData + shift,
                clip_on=False,
                zorder=3,
                gid=f"client-{client}",
            )


def _seats(count: int) -> Floats:
    """Places around a common point, in points; one alone stands on it."""
    seat = np.arange(count)
    radius, angle = 0.56 * DOT * np.sqrt(seat + 0.5), seat * _GOLDEN
    places = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.asarray(places - places.mean(axis=0))


def _note(axes: Axes, place: Floats, drawn: Floats, count: int) -> None:
    """How many clients share a place, and where it really is if it lies off the axes."""
    text = f"×{count}" if count > 1 else ""
    if not np.allclose(place, drawn):
        text += f" off the axes, at ({number(place[0])}, {number(place[1])})"
    if text:
        # up and to the right of a front there is nothing: all objectives are maximised
        away = 2.0 + 0.4 * DOT * np.sqrt(count)
        axes.annotate(
            text.strip(),
            (drawn[0], drawn[1]),
            (away, away),
            textcoords="offset points",
            fontsize=6,
            color=GREY,
            zorder=4,
        )
