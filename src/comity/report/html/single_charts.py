"""Interactive charts of a run with a single objective: scores of clients, and rounds."""

from __future__ import annotations

from html import escape

import numpy as np

from comity.core.typing import FloatArray
from comity.report.colours import GREY, PALETTE
from comity.report.html.charts import PLOTLY_DASHES, Chart, line_trace
from comity.report.measures import number, objective_label
from comity.report.series.baselines import CONSTANT
from comity.report.series.curves import MEANINGS, Kind, curves, objectives_of, validation_label
from comity.report.series.partition import constant_scores
from comity.runs.directory import Run
from comity.runs.how_soon import validation_of_all

_KINDS: tuple[Kind, ...] = ("trained", "received")
_LEGEND = {"orientation": "h", "y": -0.25}
_DARK = "#222222"
_TICKS = 12


def scores_chart(run: Run) -> Chart:
    """Return the chart of clients' scores: one bar each, the constant classifier's as a dash."""
    values, constant = objectives_of(run)[:, 0], constant_scores(run)
    clients = [row["client"] for row in run.results["per_client"]]
    data: list[Chart] = [_bars(clients, values)]
    if np.isfinite(values).any():
        mean = float(np.nanmean(values))
        ends = np.array([clients[0] - 0.5, clients[-1] + 0.5])
        label = f"mean, {number(mean, 3)}"
        data.append(line_trace(ends, np.array([mean, mean]), label, PALETTE[0], "solid"))
    if constant is not None:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{CONSTANT}, mean {number(float(constant.mean()), 3)}",
                "x": clients,
                "y": constant.tolist(),
                "marker": {"size": 2, "color": _DARK},
                "error_x": {"type": "constant", "value": 0.4, "width": 0, "color": _DARK},
            }
        )
    objective = run.configuration.get_problem().objectives[0]
    edges = {"range": [0, 1]} if objective.unit == "share" else {}
    layout = {
        "height": 400,
        "hovermode": "x unified",
        "xaxis": {"title": {"text": "client"}, **_whole_numbers(len(clients))},
        "yaxis": {"title": {"text": escape(f"{objective_label(objective)}, test")}, **edges},
        "legend": _LEGEND,
    }
    return {"data": data, "layout": layout}


def _bars(clients: list[int], values: FloatArray) -> Chart:
    known = np.isfinite(values)
    return {
        "type": "bar",
        "name": "client's kept model",
        "x": np.array(clients)[known].tolist(),
        "y": values[known].tolist(),
        "marker": {"color": PALETTE[5]},
    }


def rounds_chart(run: Run) -> Chart:
    """Return the chart of mean scores before and after local training, round by round."""
    history, last = curves(run), run.configuration.rounds
    rounds = history.rounds.astype(np.float64)
    data: list[Chart] = []
    for kind, colour, dash in zip(_KINDS, PALETTE, PLOTLY_DASHES, strict=False):
        line = history.mean(kind)
        if np.isfinite(line).any():
            data.append(_band(rounds, *history.quartiles(kind), colour))
            data.append(line_trace(rounds, line, MEANINGS[kind], colour, dash))
    every = validation_of_all(run)
    if every and run.configuration.participation < 1:
        at, scores = (np.array(list(part), dtype=np.float64) for part in (every, every.values()))
        trace = line_trace(at, scores, "all clients, at that time", PALETTE[2], "solid")
        data.append({**trace, "mode": "markers"})
    objective = run.configuration.get_problem().objectives[0].name
    trivial = run.results["trivial"].get(objective)
    if trivial is not None:
        label = f"{CONSTANT} (test)"
        data.append(line_trace(rounds[[0, -1]], np.full(2, trivial), label, GREY, "dot"))
    layout = {
        "height": 420,
        "hovermode": "x unified",
        "xaxis": {
            "title": {"text": f"round ({last + 1}: what clients received after the last)"},
            **_whole_numbers(last),
        },
        "yaxis": {"title": {"text": escape(validation_label(run))}},
        "legend": _LEGEND,
    }
    return {"data": data, "layout": layout}


def _band(x: FloatArray, low: FloatArray, high: FloatArray, colour: str) -> Chart:
    """Return the band between two lines."""
    known = np.isfinite(low)
    around = np.concatenate([x[known], x[known][::-1]])
    edge = np.concatenate([high[known], low[known][::-1]])
    return {
        **line_trace(around, edge, "", colour, "solid"),
        "fill": "toself",
        "line": {"width": 0, "color": colour},
        "fillcolor": colour,
        "opacity": 0.15,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _whole_numbers(count: int) -> Chart:
    """Return settings of an axis of which only whole numbers have a meaning."""
    return {"tick0": 0, "dtick": max(1, -(-count // _TICKS))}
