"""Interactive charts of searches."""

from __future__ import annotations

from html import escape

import numpy as np
from matplotlib.colors import to_hex

from comity.core.typing import FloatArray
from comity.report.captions import origin_of
from comity.report.colours import PALETTE, TIMES
from comity.report.html.charts import (
    PLOTLY_DASHES,
    Chart,
    band_trace,
    line_trace,
    log_axis,
    pair_axes,
    panel_domain,
    target_traces,
)
from comity.report.measures import number, preference_text
from comity.report.series.growth import HYPERVOLUME, Growths, milestones
from comity.report.series.learning import LearningCurve
from comity.runs.search_schema import FrontPoint
from comity.searches import Search


def search_front_chart(search: Search) -> Chart:
    """Return the chart of earlier fronts beneath the final one as tested, with points' origins."""
    problem = search.configuration.problem
    layout, pairs = pair_axes(problem)
    points = search.results["front"]
    final = np.array([list(point["objectives"].values()) for point in points], dtype=float)
    sets: list[tuple[str, float, FloatArray, list[str]]] = [
        (time.label, time.lateness, time.front, [time.label] * len(time.front))
        for time in milestones(search.history)[:-1]
    ]
    sets.append(("the end, as tested", 1.0, final, [_hover(point) for point in points]))
    data: list[Chart] = []
    for count, (pair, axes) in enumerate(pairs.items()):
        data += target_traces(problem, pair, axes, count == 0)
        for name, lateness, vectors, texts in sets:
            colour = to_hex(TIMES(lateness))
            trace = {
                "type": "scatter",
                "mode": "lines+markers" if len(pairs) == 1 else "markers",
                "line": {"shape": "vh", "color": colour, "width": 1},
                "name": name,
                "x": vectors[:, pair[0]].tolist(),
                "y": vectors[:, pair[1]].tolist(),
                "text": texts,
                # points often stay on the front: a later one must leave a rim of an earlier one
                "marker": {"color": colour, "size": 14 - 7 * lateness, "opacity": 1},
                "legendgroup": name,
                "showlegend": count == 0,
            }
            data.append({**trace, **axes})
    return {"data": data, "layout": layout}


def _hover(point: FrontPoint) -> str:
    """Return the text beside the pointer at a point."""
    iteration, candidate, round = origin_of(point)
    lines = [f"{escape(name)}: {number(value)}" for name, value in point["objectives"].items()]
    lines += [
        f"trained for {preference_text(point['weight'])}",
        f"iteration {iteration}, candidate {candidate}, round {round}",
        escape(point["model"]),
    ]
    return "<br>".join(lines)


def growth_chart(growths: Growths) -> Chart:
    """Return the chart of the hypervolume, and of what is missing to the best."""
    panels = {HYPERVOLUME: [line.mean for line in growths.lines]}
    if growths.optimum is not None:
        missing = [growths.missing(line) for line in growths.lines]
        # a logarithmic axis has no zero: the line of a search that misses nothing ends
        panels[f"missing to the {growths.target}"] = [np.where(y > 0, y, np.nan) for y in missing]
    layout: Chart = {"height": 460, "legend": {"orientation": "h", "y": -0.25}}
    data: list[Chart] = []
    for count, (title, values) in enumerate(panels.items()):
        suffix = "2" if count else ""
        drawn = np.concatenate(values)
        scale = log_axis(drawn[np.isfinite(drawn)]) if count else {}
        layout[f"xaxis{suffix}"] = {
            "domain": panel_domain(count, len(panels)),
            "anchor": f"y{suffix}",
            "title": {"text": growths.across},
            "rangemode": "tozero",
        }
        layout[f"yaxis{suffix}"] = {
            "anchor": f"x{suffix}",
            "title": {"text": title},
            **scale,
        }
        for index, (line, y) in enumerate(zip(growths.lines, values, strict=True)):
            name, colour = escape(line.label), PALETTE[index % len(PALETTE)]
            shared = {"legendgroup": name, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
            if line.std.any():
                stairs = LearningCurve(_later(line.x), _earlier(y), _earlier(line.std))
                data.append({**band_trace(stairs, colour, bool(scale)), **shared})
            dash = PLOTLY_DASHES[index % len(PLOTLY_DASHES)]
            steps = line_trace(line.x, y, name, colour, dash)
            steps["line"]["shape"] = "hv"
            data.append({**steps, "mode": "lines+markers", **shared, "showlegend": count == 0})
    if growths.optimum is not None:
        ends = np.array([0.0, max(line.x[-1] for line in growths.lines)])
        data.append(
            line_trace(ends, np.full(2, growths.optimum), growths.target, "#888888", "dash")
        )
    return {"data": data, "layout": layout}


def _later(x: FloatArray) -> FloatArray:
    """Return the x values of the corners of stairs."""
    return np.repeat(x, 2)[1:]


def _earlier(y: FloatArray) -> FloatArray:
    """Return the y values of the corners of stairs: a value holds until the next one."""
    return np.repeat(y, 2)[:-1]
