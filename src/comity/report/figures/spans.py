"""What clients reach whose models take any preference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.pareto import front
from comity.core.typing import FloatArray
from comity.report.figures.marks import CONSTANT, draw_marks, mark_handles, marks_of, view
from comity.report.figures.pairs import attained, frame, off_axes, pairs
from comity.report.figures.style import (
    GREY,
    PALETTE,
    canvas,
    legend_columns,
    series,
    styled,
    title_of,
)
from comity.report.measures import vector
from comity.report.series.curves import objectives_of, preferences_of
from comity.runs.directory import Run

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
    """All that each client's model reaches and the rim of it, one colour a client.

    None where models take no preference.
    """
    spans = run.spans
    if spans is None:
        return None
    problem = run.configuration.get_problem()
    marks, own = marks_of(run.results, problem), objectives_of(run)
    sets = [points[np.isfinite(points).all(axis=1)] for points in spans.vectors]
    limits = view(np.concatenate(sets), None, marks)
    made = pairs([title_of(objective) for objective in problem.objectives])
    if len(made.panels) == 1:
        made.figure.set_size_inches(5.6, 3.7)
    for pair, axes in made.panels.items():
        low, high = (edge[list(pair)] for edge in limits)
        frame(axes, low, high, None)
        draw_marks(axes, marks, pair, low, high)
        for client, points in enumerate(sets):
            _client(axes, client, points, pair, (low, high))
            _star(axes, client, *np.clip(own[client, pair], low, high))
        note = off_axes(np.concatenate(sets)[:, pair], low, high)
        axes.text(0.02, 0.02, note, transform=axes.transAxes, fontsize=6, color=GREY)
    handles = _names(run.results["spanned"]["per_client"])
    handles.append(Line2D([], [], color=GREY, label="at the client's own preference", **_STAR))
    handles += mark_handles(marks)
    title = (
        f"dots: reached at {len(spans.preferences):,} preferences; lines: the front of these\n"
        f"HV: hypervolume from reference point {vector(run.results['reference_point'])}"
    )
    if len(made.panels) == 1:
        columns = legend_columns(made.figure, [str(handle.get_label()) for handle in handles])
        place: dict[str, Any] = {"loc": "outside upper center", "ncols": columns}
        made.figure.legend(handles=handles, title=title, title_fontsize=7, **place)
    else:
        title = title.replace("; lines: the front of these", "").replace(" from", "\nfrom")
        made.corner.legend(handles=handles, loc="center", title=title, title_fontsize=7)
    return made.figure


def _client(
    axes: Axes,
    client: int,
    points: FloatArray,
    pair: tuple[int, int],
    limits: tuple[FloatArray, FloatArray],
) -> None:
    """Every point is reached; between two of them nothing need be, so that no line joins them."""
    if not len(points):
        return
    look = series(client)
    x, y = np.clip(np.unique(points, axis=0)[:, pair], *limits).T
    faint: dict[str, Any] = {"s": 7, "alpha": 0.55, "linewidth": 0, "zorder": 3}
    axes.scatter(x, y, color=look["color"], gid=f"client-{client}", **faint)
    if points.shape[1] == 2:
        best = front(points)
        rim = np.clip(best[np.argsort(best[:, 0])], *limits)
        attained(axes, rim, limits[0], linewidth=1, **look)


def _star(axes: Axes, client: int, x: float, y: float) -> None:
    axes.plot(x, y, color=series(client)["color"], clip_on=False, zorder=5, gid="own", **_STAR)


def _names(reached: Sequence[float]) -> list[Line2D]:
    """The clients with their hypervolumes, or one of them for all."""
    if len(reached) > _NAMED:
        return [Line2D([], [], color=GREY, label=f"each of {len(reached)} clients")]
    return [
        Line2D([], [], label=f"client {client}, HV {value:.3f}", **series(client))
        for client, value in enumerate(reached)
    ]


@styled
def response(run: Run) -> Figure | None:
    """What clients get for the preference that they ask for, one panel an objective.

    None where models take no preference, or where a preference is more than one number.
    """
    spans = run.spans
    if spans is None or spans.preferences.shape[1] != 2:
        return None
    objectives = run.configuration.get_problem().objectives
    order = np.argsort(spans.preferences[:, 0], kind="stable")
    asked, vectors = spans.preferences[order, 0], spans.vectors[:, order]
    own, preferences = objectives_of(run), preferences_of(run)
    figure = canvas(7.2, 2.9)
    panels = figure.subplots(1, 2)
    for place, (axes, objective) in enumerate(zip(panels, objectives, strict=True)):
        for client, line in enumerate(vectors[:, :, place]):
            axes.plot(
                asked, line, linewidth=0.8, alpha=0.6, gid=f"client-{client}", **series(client)
            )
            _star(axes, client, preferences[client, 0], own[client, place])
        axes.plot(asked, _mean(vectors[:, :, place]), color="#222222", linewidth=1.7, gid="mean")
        trivial = run.results["trivial"].get(objective.name)
        if trivial is not None:
            axes.axhline(trivial, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), gid="trivial")
        axes.set(xlim=(0, 1), ylabel=title_of(objective))
        axes.grid(True)
    figure.supxlabel(
        f"importance of {objectives[0].name} (the rest: {objectives[1].name})", fontsize=8
    )
    handles = _legend(len(vectors))
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
    return figure


def _mean(lines: FloatArray) -> FloatArray:
    """Over clients, of those who have a number."""
    known = np.isfinite(lines)
    count = np.where(known.any(axis=0), known.sum(axis=0), np.nan)
    return np.asarray(np.where(known, lines, 0.0).sum(axis=0) / count)


def _legend(clients: int) -> list[Line2D]:
    thin: dict[str, Any] = {"linewidth": 0.8}
    named = clients <= _NAMED
    lines = (
        [Line2D([], [], label=f"client {c}", **thin, **series(c)) for c in range(clients)]
        if named
        else [Line2D([], [], color=PALETTE[0], label=f"each of {clients} clients", **thin)]
    )
    return [
        Line2D([], [], color="#222222", linewidth=1.7, label="mean over clients"),
        *lines,
        Line2D([], [], color=GREY, label="the client's own preference", **_STAR),
        Line2D([], [], color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), label=CONSTANT),
    ]
