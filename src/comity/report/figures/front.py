"""Objective vectors of the clients' models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from comity.core.typing import AnyArray, BoolArray, FloatArray, IntArray
from comity.problems import Problem
from comity.report.colours import GREY, PALETTE, WEIGHTS
from comity.report.figures.baselines import baseline_handles, draw_baselines
from comity.report.figures.pairs import DOT, dot, frame, pairs, target_dot
from comity.report.figures.style import MARKERS, styled
from comity.report.measures import number, objective_label
from comity.report.series.baselines import Baselines, baselines_of
from comity.report.series.curves import objectives_of, preferences_of
from comity.report.series.limits import limits_with_baselines
from comity.runs.directory import Run

HOLLOW = "trivial, left out of the front"
_GOLDEN = np.pi * (3.0 - np.sqrt(5.0))


@dataclass(frozen=True)
class _Scene:
    """Values that the panels share."""

    points: FloatArray
    target: FloatArray | None
    ranks: FloatArray
    """Neighbours in rank stand side by side."""
    colours: AnyArray
    markers: Sequence[str]
    counted: BoolArray
    """Whether each point counts for the front; the others are hollow."""
    baselines: Baselines


@styled
def front(run: Run) -> Figure:
    """Draw one dot per client, coloured by its preference, over the known front.

    Clients with equal objectives stand around their common point, with their number beside it.
    """
    problem, preferences = run.configuration.get_problem(), preferences_of(run)
    baselines = baselines_of(run.results, problem)
    if len(problem.objectives) == 2:
        return _one_panel(problem, preferences, objectives_of(run), baselines)
    return _pairs(problem, preferences, objectives_of(run), baselines)


def _one_panel(
    problem: Problem, preferences: FloatArray, points: FloatArray, baselines: Baselines
) -> Figure:
    grid = pairs([objective_label(objective) for objective in problem.objectives])
    markers = ["o"] * len(points)
    weights, counted = preferences[:, 0], problem.counts(points)
    colours = WEIGHTS(weights)
    scene = _Scene(points, problem.target(), weights, colours, markers, counted, baselines)
    _panel(grid.corner, scene, (0, 1))
    mappable = ScalarMappable(Normalize(0, 1), WEIGHTS)
    bar = grid.figure.colorbar(mappable, ax=grid.corner, aspect=30, pad=0.02)
    bar.set_label(f"client's weight on {problem.objectives[0].name}")
    bar.outline.set_visible(False)
    handles = [dot("o", WEIGHTS(0.5), "client")]
    if scene.target is not None:
        handles.insert(0, target_dot(problem))
    # above the panel: inside it, points may lie in any corner
    grid.figure.legend(handles=handles + _others(scene), loc="outside upper center", ncols=2)
    return grid.figure


def _others(scene: _Scene) -> list[Line2D]:
    """Return the handles beyond the clients; only problems with data have any."""
    handles = baseline_handles(scene.baselines)
    undefined = ~np.isfinite(scene.points).all(axis=1)
    if not scene.counted[~undefined].all():
        handles.insert(0, dot("o", GREY, HOLLOW, markerfacecolor="white"))
    if undefined.any():
        handles.append(dot("", GREY, f"{undefined.sum()} undefined, not drawn"))
    return handles


def _pairs(
    problem: Problem, preferences: FloatArray, points: FloatArray, baselines: Baselines
) -> Figure:
    """Draw all pairs of objectives; colours and shapes show a client's largest weight."""
    objectives = problem.objectives
    grid = pairs([objective_label(objective) for objective in objectives])
    chief = preferences.argmax(axis=1)
    palette = np.array([PALETTE[i % len(PALETTE)] for i in range(len(objectives))])
    shapes = [MARKERS[i % len(MARKERS)] for i in range(len(objectives))]
    markers = [shapes[i] for i in chief]
    scene = _Scene(
        points,
        problem.target(),
        chief.astype(float),
        palette[chief],
        markers,
        problem.counts(points),
        baselines,
    )
    for pair, axes in grid.panels.items():
        _panel(axes, scene, pair)
    handles = [
        dot(shape, colour, f"mostly {objective.name} ({(chief == i).sum()})")
        for i, (objective, shape, colour) in enumerate(
            zip(objectives, shapes, palette, strict=True)
        )
    ]
    if scene.target is not None:
        handles.append(target_dot(problem))
    handles += _others(scene)
    grid.corner.legend(handles=handles, loc="center", title="clients who care")
    return grid.figure


def _panel(axes: Axes, scene: _Scene, pair: tuple[int, int]) -> None:
    """Draw two of the objectives against each other."""
    defined = np.flatnonzero(np.isfinite(scene.points).all(axis=1))
    points = np.round(scene.points[defined], 6)
    low, high = (
        edge[list(pair)] for edge in limits_with_baselines(points, scene.target, scene.baselines)
    )
    frame(axes, low, high, None if scene.target is None else scene.target[:, pair])
    draw_baselines(axes, scene.baselines, pair, low, high)
    places, group, counts = np.unique(
        points[:, pair], axis=0, return_inverse=True, return_counts=True
    )
    shown = np.clip(places, low, high)
    members = [defined[group.reshape(-1) == place] for place in range(len(places))]
    _flowers(axes, scene, shown, members)
    for place, drawn, count in zip(places, shown, counts, strict=True):
        _note(axes, place, drawn, int(count))


def _flowers(axes: Axes, scene: _Scene, shown: FloatArray, groups: Sequence[IntArray]) -> None:
    """Draw each client's dot; those at one point side by side like seeds of a sunflower."""
    for at, members in zip(shown, groups, strict=True):
        members = members[np.argsort(scene.ranks[members], kind="stable")]
        for client, (dx, dy) in zip(members.tolist(), _seats(len(members)) / 72, strict=True):
            colour, counts = scene.colours[client], scene.counted[client]
            shift = ScaledTranslation(dx, dy, axes.figure.dpi_scale_trans)
            axes.plot(
                *at,
                marker=scene.markers[client],
                markersize=DOT,
                markerfacecolor=colour if counts else "white",
                markeredgecolor="white" if counts else colour,
                markeredgewidth=0.4 if counts else 1.0,
                transform=axes.transData + shift,
                clip_on=False,
                zorder=3,
                gid=f"client-{client}",
            )


def _seats(count: int) -> FloatArray:
    """Return positions around a common point, in points; a single one stands on it."""
    seat = np.arange(count)
    radius, angle = 0.56 * DOT * np.sqrt(seat + 0.5), seat * _GOLDEN
    places = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return np.asarray(places - places.mean(axis=0))


def _note(axes: Axes, place: FloatArray, drawn: FloatArray, count: int) -> None:
    """Write how many clients share a point, and its coordinates if it lies off the axes."""
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
