"""Reach of clients whose models take any preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.pareto import front
from comity.core.typing import FloatArray
from comity.problems import Objective
from comity.report.colours import GREY, PALETTE
from comity.report.figures.baselines import baseline_handles, draw_baselines
from comity.report.figures.pairs import attained, frame, off_axes, pairs
from comity.report.figures.style import (
    canvas,
    legend_columns,
    line_style,
    styled,
)
from comity.report.measures import objective_label, vector
from comity.report.names import client_labels
from comity.report.series.baselines import CONSTANT, baselines_of
from comity.report.series.curves import objectives_of, preferences_of
from comity.report.series.limits import limits_with_baselines
from comity.runs.directory import Run
from comity.runs.schema import Results
from comity.runs.spans import Spans

_NAMED = 10  # more clients than this have no room for their names
_STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 9,
    "markeredgecolor": "white",
    "markeredgewidth": 0.6,
    "linestyle": "",
}


@styled
def spans(run: Run) -> Figure | None:
    """Draw all that each client's model reaches and its rim, one colour per client.

    None where models take no preference.
    """
    spans = run.spans
    if spans is None:
        return None
    problem = run.configuration.get_problem()
    baselines, chosen = baselines_of(run.results, problem), objectives_of(run)
    sets = [points[np.isfinite(points).all(axis=1)] for points in spans.vectors]
    limits = limits_with_baselines(np.concatenate(sets), None, baselines)
    grid = pairs([objective_label(objective) for objective in problem.objectives])
    if len(grid.panels) == 1:
        grid.figure.set_size_inches(5.6, 3.7)
    for pair, axes in grid.panels.items():
        low, high = (edge[list(pair)] for edge in limits)
        frame(axes, low, high, None)
        draw_baselines(axes, baselines, pair, low, high)
        for client, points in enumerate(sets):
            _client(axes, client, points, pair, (low, high))
            _star(axes, client, *np.clip(chosen[client, pair], low, high))
        note = off_axes(np.concatenate(sets)[:, pair], low, high)
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color=GREY)
    handles = _names(run.results)
    handles.append(Line2D([], [], color=GREY, label="at the client's own preference", **_STAR))
    handles += baseline_handles(baselines)
    title = (
        f"dots: reached at {len(spans.preferences):,} preferences; lines: the front of these\n"
        f"HV: hypervolume from reference point {vector(run.results['reference_point'])}"
    )
    if len(grid.panels) == 1:
        columns = legend_columns(grid.figure, [str(handle.get_label()) for handle in handles])
        position: dict[str, Any] = {"loc": "outside upper center", "ncols": columns}
        grid.figure.legend(handles=handles, title=title, title_fontsize=7, **position)
    else:
        title = title.replace("; lines: the front of these", "").replace(" from", "\nfrom")
        grid.corner.legend(handles=handles, loc="center", title=title, title_fontsize=7)
    return grid.figure


def _client(
    axes: Axes,
    client: int,
    points: FloatArray,
    pair: tuple[int, int],
    limits: tuple[FloatArray, FloatArray],
) -> None:
    """Draw each point that is reached; no line joins them, as nothing between need be reached."""
    if not len(points):
        return
    look = line_style(client)
    x, y = np.clip(np.unique(points, axis=0)[:, pair], *limits).T
    faint: dict[str, Any] = {"s": 7, "alpha": 0.55, "linewidth": 0, "zorder": 3}
    axes.scatter(x, y, color=look["color"], gid=f"client-{client}", **faint)
    if points.shape[1] == 2:
        best = front(points)
        rim = np.clip(best[np.argsort(best[:, 0])], *limits)
        attained(axes, rim, limits[0], linewidth=1, **look)


def _star(axes: Axes, client: int, x: float, y: float) -> None:
    axes.plot(x, y, color=line_style(client)["color"], clip_on=False, zorder=5, gid="own", **_STAR)


def _names(results: Results) -> list[Line2D]:
    """Return handles of the clients with their hypervolumes, or one for many clients."""
    reached, labels = results["spanned"]["per_client"], client_labels(results)
    if len(reached) > _NAMED:
        return [Line2D([], [], color=GREY, label=f"each of {len(reached)} clients")]
    return [
        Line2D([], [], label=f"{labels[client]}, HV {value:.3f}", **line_style(client))
        for client, value in enumerate(reached)
    ]


@styled
def response(run: Run) -> Figure | None:
    """Draw what clients get for the preference that they ask for, one panel per objective.

    None where models take no preference, or where a preference is more than one number.
    """
    spans = run.spans
    if spans is None or spans.preferences.shape[1] != 2:
        return None
    objectives = run.configuration.get_problem().objectives
    figure = canvas(7.2, 2.9)
    panels = figure.subplots(1, 2)
    draw_response(panels, run, spans)
    figure.supxlabel(importance_label(objectives), fontsize=8)
    handles = response_handles(client_labels(run.results))
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def draw_response(panels: Sequence[Axes], run: Run, spans: Spans) -> None:
    """Draw outcomes over the importance of the first of two objectives.

    Args:
        panels: One panel per objective.
        run: The run.
        spans: Its outcomes.
    """
    objectives = run.configuration.get_problem().objectives
    order = np.argsort(spans.preferences[:, 0], kind="stable")
    weights, vectors = spans.preferences[order, 0], spans.vectors[:, order]
    chosen, preferences = objectives_of(run), preferences_of(run)
    for index, (axes, objective) in enumerate(zip(panels, objectives, strict=True)):
        for client, line in enumerate(vectors[:, :, index]):
            axes.plot(
                weights,
                line,
                linewidth=0.8,
                alpha=0.6,
                gid=f"client-{client}",
                **line_style(client),
            )
            _star(axes, client, preferences[client, 0], chosen[client, index])
        axes.plot(weights, _mean(vectors[:, :, index]), color="#222222", linewidth=1.7, gid="mean")
        trivial = run.results["trivial"].get(objective.name)
        if trivial is not None:
            axes.axhline(trivial, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), gid="trivial")
        axes.set(xlim=(0, 1), ylabel=objective_label(objective))
        axes.grid(True)


def importance_label(objectives: Sequence[Objective]) -> str:
    """Return the label of the axis of preferences between two objectives."""
    return f"importance of {objectives[0].name} (the rest: {objectives[1].name})"


def _mean(lines: FloatArray) -> FloatArray:
    """Return the mean over the clients that have a number."""
    known = np.isfinite(lines)
    count = np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    return np.asarray(np.where(known, lines, 0.0).sum(axis=0) / count)


def response_handles(clients: Sequence[str]) -> list[Line2D]:
    """Return the legend of outcomes over preferences.

    Args:
        clients: Labels of the clients.
    """
    thin: dict[str, Any] = {"linewidth": 0.8}
    named = len(clients) <= _NAMED
    lines = (
        [Line2D([], [], label=name, **thin, **line_style(c)) for c, name in enumerate(clients)]
        if named
        else [Line2D([], [], color=PALETTE[0], label=f"each of {len(clients)} clients", **thin)]
    )
    return [
        Line2D([], [], color="#222222", linewidth=1.7, label="mean over clients"),
        *lines,
        Line2D([], [], color=GREY, label="the client's own preference", **_STAR),
        Line2D([], [], color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), label=CONSTANT),
    ]
