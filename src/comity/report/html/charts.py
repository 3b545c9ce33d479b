"""Interactive charts as plain plotly specifications: what the page's script draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.figures.learning import LearningCurve, Runs, has_regret, learn, learned
from comity.report.figures.marks import CONSTANT, marks_of, view
from comity.report.figures.rewards import window
from comity.report.figures.style import FAINT, GREY, PALETTE, WEIGHTS, title_of
from comity.report.measures import number, shown_names, single, target_label
from comity.report.series.curves import (
    KINDS,
    MEANINGS,
    curves,
    objectives_of,
    preferences_of,
    validated,
)
from comity.report.terms import words_of
from comity.runs.directory import Run

Chart = dict[str, Any]
Axes = Mapping[str, str]

PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot")
_COLOURS = [[share, to_hex(WEIGHTS(share))] for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
_GAP = 0.08  # between panels, as a share of the chart


@dataclass(frozen=True)
class _Place:
    """An objective vector and the clients that share it."""

    vector: FloatArray
    clients: int
    weight: float
    """Their mean weight on the first objective."""
    words: str
    counts: bool
    """Whether it counts for the front."""


def front_chart(run: Run) -> Chart:
    """The front: one marker a place, with the clients that share it; pairs of objectives."""
    problem = run.configuration.get_problem()
    layout, pairs = pair_axes(problem)
    data: list[Chart] = []
    places, marks = _places(run, problem), marks_of(run.results, problem)
    for count, (pair, axes) in enumerate(pairs.items()):
        data += target_traces(problem, pair, axes, count == 0)
        data.append(_clients(places, pair, axes, problem, count == 0))
        if marks.trivial is not None:
            data.append(_trivial(marks.trivial, pair, axes, count == 0))
    if marks.strict is not None:
        layout["shapes"] = _lines(marks.strict, pairs)
        vectors = np.array([place.vector for place in places]).reshape(-1, len(marks.strict))
        edges = np.column_stack(view(vectors, problem.target(), marks)).tolist()
        for (x, y), axes in pairs.items():  # or the lines would stretch the axes
            layout[f"xaxis{axes['xaxis'][1:]}"]["range"] = edges[x]
            layout[f"yaxis{axes['yaxis'][1:]}"]["range"] = edges[y]
    return {"data": data, "layout": layout}


def _trivial(point: FloatArray, pair: tuple[int, int], axes: Axes, legend: bool) -> Chart:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": CONSTANT,
        "x": [float(point[pair[0]])],
        "y": [float(point[pair[1]])],
        "marker": {"color": GREY, "symbol": "x-thin-open", "size": 12, "line": {"width": 2}},
        "showlegend": legend,
        **axes,
    }


def _lines(point: FloatArray, pairs: Mapping[tuple[int, int], Axes]) -> list[Chart]:
    """A line in each direction of each panel."""
    look = {"type": "line", "line": {"color": GREY, "width": 1, "dash": "dash"}}
    shapes = []
    for (x, y), axes in pairs.items():
        ends = {"x0": float(point[x]), "x1": float(point[x]), "y0": 0, "y1": 1}
        place = {"xref": axes["xaxis"], "yref": f"{axes['yaxis']} domain"}
        shapes.append({**look, **ends, **place})
        ends = {"x0": 0, "x1": 1, "y0": float(point[y]), "y1": float(point[y])}
        place = {"xref": f"{axes['xaxis']} domain", "yref": axes["yaxis"]}
        shapes.append({**look, **ends, **place})
    return shapes


def pair_axes(problem: Problem) -> tuple[Chart, dict[tuple[int, int], Axes]]:
    """A layout with a panel for each pair of objectives, and the axes of each."""
    side = len(problem.objectives) - 1
    layout: Chart = {
        "height": 440 if side == 1 else 300 * side,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.2},
    }
    pairs: dict[tuple[int, int], Axes] = {}
    places = [(x, y) for y in range(1, side + 1) for x in range(y)]
    for x, y in places:
        suffix = str(len(pairs) + 1) if pairs else ""
        across, down = share(x, side), share(side - y, side)
        layout[f"xaxis{suffix}"] = {"domain": across, "anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] = {"domain": down, "anchor": f"x{suffix}"}
        if y == side:  # only the outer panels have room for names
            layout[f"xaxis{suffix}"]["title"] = {"text": escape(title_of(problem.objectives[x]))}
        if x == 0:
            layout[f"yaxis{suffix}"]["title"] = {"text": escape(title_of(problem.objectives[y]))}
        pairs[x, y] = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    return layout, pairs


def share(place: int, of: int) -> list[float]:
    """The part of the chart that a panel takes in one direction."""
    width = (1.0 - _GAP * (of - 1)) / of
    start = place * (width + _GAP)
    return [start, min(1.0, start + width)]


def target_traces(problem: Problem, pair: tuple[int, int], axes: Axes, legend: bool) -> list[Chart]:
    """The known front beneath all else, if there is one."""
    target = problem.target()
    if target is None:
        return []
    trace = {
        "type": "scatter",
        "mode": "markers",
        "name": target_label(problem),
        "x": target[:, pair[0]].tolist(),
        "y": target[:, pair[1]].tolist(),
        "marker": {"color": FAINT, "size": 9},
        "showlegend": legend,
    }
    return [{**trace, **axes}]


def _places(run: Run, problem: Problem) -> list[_Place]:
    """Each different objective vector that is defined."""
    points, preferences = np.round(objectives_of(run), 6), preferences_of(run)
    defined = np.flatnonzero(np.isfinite(points).all(axis=1))
    places, group = np.unique(points[defined], axis=0, return_inverse=True)
    counted = problem.counts(places)
    found = []
    for index, place in enumerate(places):
        members = defined[group.reshape(-1) == index]
        lines = [
            f"{escape(objective.name)}: {number(value)}"
            for objective, value in zip(problem.objectives, place, strict=True)
        ]
        lines += [
            f"client {client}: preference {', '.join(f'{w:.2f}' for w in preferences[client])}"
            for client in members[:20]
        ]
        if len(members) > 20:
            lines.append(f"and {len(members) - 20} more clients")
        weight = float(preferences[members, 0].mean())
        words = "<br>".join(lines)
        found.append(_Place(place, len(members), weight, words, bool(counted[index])))
    return found


def _clients(
    places: Sequence[_Place],
    pair: tuple[int, int],
    axes: Axes,
    problem: Problem,
    first: bool,
) -> Chart:
    bar = {"title": {"text": f"weight on {escape(problem.objectives[0].name)}", "side": "right"}}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "clients",
        "x": [float(place.vector[pair[0]]) for place in places],
        "y": [float(place.vector[pair[1]]) for place in places],
        "text": [place.words for place in places],
        "hoverinfo": "text",
        "showlegend": first,
        "marker": {
            "symbol": ["circle" if place.counts else "circle-open" for place in places],
            "size": [float(5 + 5 * np.sqrt(place.clients)) for place in places],
            "color": [place.weight for place in places],
            "colorscale": _COLOURS,
            "cmin": 0,
            "cmax": 1,
            "showscale": first,
            "colorbar": {**bar, "thickness": 12, "outlinewidth": 0},
            # an open circle is drawn by its rim alone, in the marker's own colour
            "line": {"width": [1 if place.counts else 2 for place in places], "color": "white"},
            "opacity": 1,
        },
        **axes,
    }


def rewards_chart(run: Run) -> Chart:
    """Scalarised validation values over the steps, with the optimum and the trivial baseline."""
    found, words = curves(run), words_of(run.results)
    data: list[Chart] = []
    for kind, colour, dash in zip(KINDS, PALETTE, PLOTLY_DASHES, strict=False):
        line = found.mean(kind)
        if np.isfinite(line).any():
            data.append(line_trace(found.steps, line, MEANINGS[kind], colour, dash))
            data[-1]["text"] = [f"round {r}" for r in found.rounds]
    for name, colour in (("optimum", "#888888"), ("trivial", "#bbbbbb")):
        value = run.results.get(name, {}).get("mean_scalarised")
        if value is not None:
            ends = found.steps[[0, -1]]
            data.append(line_trace(ends, np.array([value, value]), name, colour, "dash"))
    low, high = found.quartiles("kept")
    shown = [np.array(trace["y"], dtype=float) for trace in data]
    layout = {
        "height": 420,
        "hovermode": "x unified",
        "xaxis": {"title": {"text": words.steps}},
        "yaxis": {
            "title": {"text": escape(validated(run))},
            "range": list(window(low, high, shown)),
        },
        "legend": {"orientation": "h", "y": -0.25},
    }
    return {"data": data, "layout": layout}


def learning_chart(comparison: Mapping[str, Any], runs: Runs) -> Chart | None:
    """Learning curves of a comparison; a click in the legend hides an algorithm."""
    lessons = learn(comparison, runs)
    if not lessons:
        return None
    kinds = list(dict.fromkeys(kind for _, kind in lessons))
    algorithms = list(dict.fromkeys(algorithm for algorithm, _ in lessons))
    names, regret = shown_names(comparison["rows"]), has_regret(runs)
    means = np.concatenate([lesson.mean for lesson in lessons.values()])
    scale = log_axis(means) if regret else {}
    data = []
    for (algorithm, kind), lesson in lessons.items():
        place, count = algorithms.index(algorithm), kinds.index(kind)
        dash = PLOTLY_DASHES[place // len(PALETTE) % len(PLOTLY_DASHES)]
        name, colour = escape(names[algorithm]), PALETTE[place % len(PALETTE)]
        shared = {"legendgroup": name, "xaxis": f"x{count + 1}" if count else "x"}
        line = line_trace(lesson.steps, lesson.mean, name, colour, dash)
        data.append({**band_trace(lesson, colour, bool(scale)), **shared})
        data.append({**line, **shared, "showlegend": count == 0})
    layout: Chart = {
        "height": 460,
        "yaxis": {"title": {"text": escape(learned(runs))}, **scale},
        "legend": {"orientation": "h", "y": -0.25},
    }
    for count, kind in enumerate(kinds):
        axis = "" if count == 0 else str(count + 1)
        domain = share(count, len(kinds))
        about = "steps" if single(comparison) else f"steps, {escape(kind)}"
        layout[f"xaxis{axis}"] = {"domain": domain, "title": {"text": about}}
    return {"data": data, "layout": layout}


def log_axis(values: FloatArray) -> Chart:
    """Settings of a logarithmic axis for these values; none if one of them touches zero."""
    if not len(values) or values.min() <= 0:
        return {}
    # on a short axis, plotly itself finds round numbers
    return (
        {"type": "log", "dtick": "D2"}
        if np.ptp(values) > 9 * values.min()
        else {"type": "log", "nticks": 8}
    )


def band_trace(lesson: LearningCurve, colour: str, logarithmic: bool) -> Chart:
    """The standard error around a learning curve."""
    low = lesson.mean - lesson.error
    if logarithmic:  # where nothing below zero can be drawn
        low = np.maximum(low, 0.05 * lesson.mean)
    y = np.concatenate([lesson.mean + lesson.error, low[::-1]])
    x = np.concatenate([lesson.steps, lesson.steps[::-1]])
    return {
        **line_trace(x, y, "", colour, "solid"),
        "fill": "toself",
        "line": {"width": 0, "color": colour},
        "fillcolor": colour,
        "opacity": 0.12,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def line_trace(x: FloatArray, y: FloatArray, name: str, colour: str, dash: str) -> Chart:
    known = np.isfinite(y)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": np.round(x[known], 3).tolist(),
        "y": y[known].tolist(),
        "line": {"color": colour, "dash": dash},
    }
