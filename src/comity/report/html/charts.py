"""Interactive charts as plain plotly specifications, which the page's script draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.colours import FAINT, GREY, PALETTE, WEIGHTS
from comity.report.measures import (
    baselines,
    display_names,
    has_single_objective,
    number,
    objective_label,
    target_label,
)
from comity.report.names import client_labels
from comity.report.series.baselines import CONSTANT, baselines_of
from comity.report.series.curves import (
    KINDS,
    MEANINGS,
    curves,
    objectives_of,
    preferences_of,
    validation_label,
)
from comity.report.series.learning import (
    LearningCurve,
    Runs,
    has_regret,
    learning_curves,
    y_label,
)
from comity.report.series.limits import limits_with_baselines, value_limits
from comity.report.terms import terms_of
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults

Chart = dict[str, Any]
"""Plotly's specification of a chart, or of a part of one."""
Axes = Mapping[str, str]
"""The names of the axes of a panel."""

PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot")
_COLOURS = [[weight, to_hex(WEIGHTS(weight))] for weight in (0.0, 0.25, 0.5, 0.75, 1.0)]
_GAP = 0.08  # between panels, as a share of the chart


@dataclass(frozen=True)
class _SharedPoint:
    """Objective vector and the clients that share it."""

    vector: FloatArray
    clients: int
    weight: float
    """Their mean weight on the first objective."""
    hover: str
    """The text beside the pointer."""
    counts: bool
    """Whether it counts for the front."""


def front_chart(run: Run) -> Chart:
    """Return the chart of the front: one marker per point, with the clients that share it."""
    problem = run.configuration.get_problem()
    layout, pairs = pair_axes(problem)
    data: list[Chart] = []
    points, known = _shared_points(run, problem), baselines_of(run.results, problem)
    for count, (pair, axes) in enumerate(pairs.items()):
        data += target_traces(problem, pair, axes, count == 0)
        data.append(_clients(points, pair, axes, problem, count == 0))
        if known.trivial is not None:
            data.append(_trivial(known.trivial, pair, axes, count == 0))
    if known.strict is not None:
        layout["shapes"] = _lines(known.strict, pairs)
        vectors = np.array([point.vector for point in points]).reshape(-1, len(known.strict))
        limits = limits_with_baselines(vectors, problem.target(), known)
        edges = np.column_stack(limits).tolist()
        for (x, y), axes in pairs.items():  # or the lines would stretch the axes
            layout[f"xaxis{axes['xaxis'][1:]}"]["range"] = edges[x]
            layout[f"yaxis{axes['yaxis'][1:]}"]["range"] = edges[y]
    return {"data": data, "layout": layout}


def _trivial(point: FloatArray, pair: tuple[int, int], axes: Axes, legend: bool) -> Chart:
    """Return the cross of the constant classifier."""
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
    """Return a line in each direction of each panel."""
    look = {"type": "line", "line": {"color": GREY, "width": 1, "dash": "dash"}}
    shapes = []
    for (x, y), axes in pairs.items():
        ends = {"x0": float(point[x]), "x1": float(point[x]), "y0": 0, "y1": 1}
        refs = {"xref": axes["xaxis"], "yref": f"{axes['yaxis']} domain"}
        shapes.append({**look, **ends, **refs})
        ends = {"x0": 0, "x1": 1, "y0": float(point[y]), "y1": float(point[y])}
        refs = {"xref": f"{axes['xaxis']} domain", "yref": axes["yaxis"]}
        shapes.append({**look, **ends, **refs})
    return shapes


def pair_axes(problem: Problem) -> tuple[Chart, dict[tuple[int, int], Axes]]:
    """Return a layout with one panel per pair of objectives, and the axes of each."""
    side = len(problem.objectives) - 1
    labels = [escape(objective_label(objective)) for objective in problem.objectives]
    layout: Chart = {
        "height": 440 if side == 1 else 300 * side,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.2},
    }
    pairs: dict[tuple[int, int], Axes] = {}
    panels = [(x, y) for y in range(1, side + 1) for x in range(y)]
    for x, y in panels:
        suffix = str(len(pairs) + 1) if pairs else ""
        across, down = panel_domain(x, side), panel_domain(side - y, side)
        layout[f"xaxis{suffix}"] = {"domain": across, "anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] = {"domain": down, "anchor": f"x{suffix}"}
        if y == side:  # only the outer panels have room for names
            layout[f"xaxis{suffix}"]["title"] = {"text": labels[x]}
        if x == 0:
            layout[f"yaxis{suffix}"]["title"] = {"text": labels[y]}
        pairs[x, y] = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
    return layout, pairs


def panel_domain(index: int, panels: int) -> list[float]:
    """Return the part of the chart that one of several panels takes in one direction."""
    width = (1.0 - _GAP * (panels - 1)) / panels
    start = index * (width + _GAP)
    return [start, min(1.0, start + width)]


def target_traces(problem: Problem, pair: tuple[int, int], axes: Axes, legend: bool) -> list[Chart]:
    """Return the known front, to be drawn beneath all else, if there is one."""
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


def _shared_points(run: Run, problem: Problem) -> list[_SharedPoint]:
    """Return each different objective vector that is defined."""
    vectors, preferences = np.round(objectives_of(run), 6), preferences_of(run)
    defined = np.flatnonzero(np.isfinite(vectors).all(axis=1))
    distinct, inverse = np.unique(vectors[defined], axis=0, return_inverse=True)
    counted, names = problem.counts(distinct), list(map(escape, client_labels(run.results)))
    points = []
    for index, vector in enumerate(distinct):
        members = defined[inverse.reshape(-1) == index]
        lines = [
            f"{escape(objective.name)}: {number(value)}"
            for objective, value in zip(problem.objectives, vector, strict=True)
        ]
        lines += [
            f"{names[client]}: preference {', '.join(f'{w:.2f}' for w in preferences[client])}"
            for client in members[:20]
        ]
        if len(members) > 20:
            lines.append(f"and {len(members) - 20} more clients")
        weight = float(preferences[members, 0].mean())
        hover = "<br>".join(lines)
        points.append(_SharedPoint(vector, len(members), weight, hover, bool(counted[index])))
    return points


def _clients(
    points: Sequence[_SharedPoint],
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
        "x": [float(point.vector[pair[0]]) for point in points],
        "y": [float(point.vector[pair[1]]) for point in points],
        "text": [point.hover for point in points],
        "hoverinfo": "text",
        "showlegend": first,
        "marker": {
            "symbol": ["circle" if point.counts else "circle-open" for point in points],
            "size": [float(5 + 5 * np.sqrt(point.clients)) for point in points],
            "color": [point.weight for point in points],
            "colorscale": _COLOURS,
            "cmin": 0,
            "cmax": 1,
            "showscale": first,
            "colorbar": {**bar, "thickness": 12, "outlinewidth": 0},
            # an open circle is drawn by its rim alone, in the marker's own colour
            "line": {"width": [1 if point.counts else 2 for point in points], "color": "white"},
            "opacity": 1,
        },
        **axes,
    }


def rewards_chart(run: Run) -> Chart:
    """Return the chart of scalarised validation values over the steps, with the baselines."""
    history, terms = curves(run), terms_of(run.results)
    data: list[Chart] = []
    for kind, colour, dash in zip(KINDS, PALETTE, PLOTLY_DASHES, strict=False):
        line = history.mean(kind)
        if np.isfinite(line).any():
            data.append(line_trace(history.steps, line, MEANINGS[kind], colour, dash))
            data[-1]["text"] = [f"round {r}" for r in history.rounds]
    for name, colour in (("optimum", "#888888"), ("trivial", "#bbbbbb")):
        value = baselines(run.results).get(name, {}).get("mean_scalarised")
        if value is not None:
            ends = history.steps[[0, -1]]
            data.append(line_trace(ends, np.array([value, value]), name, colour, "dash"))
    low, high = history.quartiles("kept")
    shown = [np.array(trace["y"], dtype=float) for trace in data]
    floor, ceiling = value_limits(low, high, shown)
    for trace, line in zip(data, shown, strict=True):
        lowest = line.min(initial=np.inf)
        if lowest < floor:  # its absence must not pass for success
            trace["name"] += f" (below the axis: {number(float(lowest), 3)})"
    layout = {
        "height": 420,
        "hovermode": "x unified",
        "xaxis": {"title": {"text": terms.steps}},
        "yaxis": {
            "title": {"text": escape(validation_label(run))},
            "range": [floor, ceiling],
        },
        "legend": {"orientation": "h", "y": -0.25},
    }
    return {"data": data, "layout": layout}


def learning_chart(comparison: ComparisonResults, runs: Runs) -> Chart | None:
    """Return the chart of learning curves; a click in the legend hides an algorithm."""
    learning = learning_curves(comparison, runs)
    if not learning:
        return None
    kinds = list(dict.fromkeys(kind for _, kind in learning))
    algorithms = list(dict.fromkeys(algorithm for algorithm, _ in learning))
    names, regret = display_names(comparison["rows"]), has_regret(runs)
    means = np.concatenate([curve.mean for curve in learning.values()])
    scale = log_axis(means) if regret else {}
    data = []
    for (algorithm, kind), curve in learning.items():
        index, count = algorithms.index(algorithm), kinds.index(kind)
        dash = PLOTLY_DASHES[index // len(PALETTE) % len(PLOTLY_DASHES)]
        name, colour = escape(names[algorithm]), PALETTE[index % len(PALETTE)]
        shared = {"legendgroup": name, "xaxis": f"x{count + 1}" if count else "x"}
        line = line_trace(curve.steps, curve.mean, name, colour, dash)
        data.append({**band_trace(curve, colour, bool(scale)), **shared})
        data.append({**line, **shared, "showlegend": count == 0})
    layout: Chart = {
        "height": 460,
        "yaxis": {"title": {"text": escape(y_label(runs))}, **scale},
        "legend": {"orientation": "h", "y": -0.25},
    }
    for count, kind in enumerate(kinds):
        axis = "" if count == 0 else str(count + 1)
        domain = panel_domain(count, len(kinds))
        about = "steps" if has_single_objective(comparison) else f"steps, {escape(kind)}"
        layout[f"xaxis{axis}"] = {"domain": domain, "title": {"text": about}}
    return {"data": data, "layout": layout}


def log_axis(values: FloatArray) -> Chart:
    """Return settings of a logarithmic axis for these values; none if one is not positive."""
    if not len(values) or values.min() <= 0:
        return {}
    # on a short axis, plotly itself finds round numbers
    return (
        {"type": "log", "dtick": "D2"}
        if np.ptp(values) > 9 * values.min()
        else {"type": "log", "nticks": 8}
    )


def band_trace(curve: LearningCurve, colour: str, logarithmic: bool) -> Chart:
    """Return the band of one standard deviation around a learning curve."""
    low = curve.mean - curve.std
    if logarithmic:  # where nothing below zero can be drawn
        low = np.maximum(low, 0.05 * curve.mean)
    y = np.concatenate([curve.mean + curve.std, low[::-1]])
    x = np.concatenate([curve.steps, curve.steps[::-1]])
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
    """Return a line through the known points."""
    known = np.isfinite(y)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": np.round(x[known], 3).tolist(),
        "y": y[known].tolist(),
        "line": {"color": colour, "dash": dash},
    }
