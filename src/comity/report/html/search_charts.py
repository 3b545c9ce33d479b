"""Interactive charts of searches."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from comity.core.typing import FloatArray
from comity.report.figures.learning import LearningCurve
from comity.report.figures.style import PALETTE, TIMES
from comity.report.html.charts import (
    PLOTLY_DASHES,
    Chart,
    band_trace,
    line_trace,
    log_axis,
    pair_axes,
    share,
    target_traces,
)
from comity.report.measures import number
from comity.report.series.growth import HYPERVOLUME, Growths, milestones
from comity.report.tables import origin_of, preference_text
from comity.searches import Search


def found_chart(search: Search) -> Chart:
    """Earlier fronts beneath the final one as tested, whose points say what is behind them."""
    problem = search.configuration.problem
    layout, pairs = pair_axes(problem)
    points = search.results["front"]
    final = np.array([list(point["objectives"].values()) for point in points], dtype=float)
    sets: list[tuple[str, float, FloatArray, list[str]]] = [
        (time.label, time.lateness, time.front, [time.label] * len(time.front))
        for time in milestones(search.history)[:-1]
    ]
    sets.append(("the end, as tested", 1.0, final, [_words(point) for point in points]))
    data: list[Chart] = []
    for count, (pair, axes) in enumerate(pairs.items()):
        data += target_traces(problem, pair, axes, count == 0)
        for name, lateness, vectors, words in sets:
            colour = to_hex(TIMES(lateness))
            trace = {
                "type": "scatter",
                "mode": "lines+markers" if len(pairs) == 1 else "markers",
                "line": {"shape": "vh", "color": colour, "width": 1},
                "name": name,
                "x": vectors[:, pair[0]].tolist(),
                "y": vectors[:, pair[1]].tolist(),
                "text": words,
                # points often stay on the front: a later one must leave a rim of an earlier one
                "marker": {"color": colour, "size": 14 - 7 * lateness, "opacity": 1},
                "legendgroup": name,
                "showlegend": count == 0,
            }
            data.append({**trace, **axes})
    return {"data": data, "layout": layout}


def _words(point: Mapping[str, Any]) -> str:
    iteration, candidate, round = origin_of(point)
    lines = [f"{escape(name)}: {number(value)}" for name, value in point["objectives"].items()]
    lines += [
        f"trained for {preference_text(point['weight'])}",
        f"iteration {iteration}, candidate {candidate}, round {round}",
        escape(point["model"]),
    ]
    return "<br>".join(lines)


def growth_chart(told: Growths) -> Chart:
    """Hypervolume, and what is missing to the best; a click in the legend hides a search."""
    panels = {HYPERVOLUME: [line.mean for line in told.lines]}
    if told.optimum is not None:
        missing = [told.missing(line) for line in told.lines]
        # a logarithmic axis has no zero: the line of a search that misses nothing ends
        panels[f"missing to the {told.target}"] = [np.where(y > 0, y, np.nan) for y in missing]
    layout: Chart = {"height": 460, "legend": {"orientation": "h", "y": -0.25}}
    data: list[Chart] = []
    for count, (title, values) in enumerate(panels.items()):
        suffix = "2" if count else ""
        drawn = np.concatenate(values)
        scale = log_axis(drawn[np.isfinite(drawn)]) if count else {}
        layout[f"xaxis{suffix}"] = {
            "domain": share(count, len(panels)),
            "anchor": f"y{suffix}",
            "title": {"text": told.across},
            "rangemode": "tozero",
        }
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "title": {"text": title},
            **scale,
        }
        for place, (line, y) in enumerate(zip(told.lines, values, strict=True)):
            name, colour = escape(line.label), PALETTE[place % len(PALETTE)]
            shared = {"legendgroup": name, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
            if line.std.any():
                stairs = LearningCurve(_later(line.x), _earlier(y), _earlier(line.std))
                data.append({**band_trace(stairs, colour, bool(scale)), **shared})
            dash = PLOTLY_DASHES[place % len(PLOTLY_DASHES)]
            steps = line_trace(line.x, y, name, colour, dash)
            steps["line"]["shape"] = "hv"
            data.append({**steps, "mode": "lines+markers", **shared, "showlegend": count == 0})
    if told.optimum is not None:
        ends = np.array([0.0, max(line.x[-1] for line in told.lines)])
        data.append(line_trace(ends, np.full(2, told.optimum), told.target, "#888888", "dash"))
    return {"data": data, "layout": layout}


def _later(x: FloatArray) -> FloatArray:
    """The corners of stairs, across."""
    return np.repeat(x, 2)[1:]


def _earlier(y: FloatArray) -> FloatArray:
    """The corners of stairs, up and down: a value holds until the next one."""
    return np.repeat(y, 2)[:-1]
