"""Losses beside metrics: what training makes small, and what is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comity.core.pareto import nondominated
from comity.core.typing import BoolArray, FloatArray
from comity.report.figures.style import canvas, legend_columns, line_style, styled
from comity.report.measures import objective_label
from comity.report.names import client_labels
from comity.runs.directory import Run

_NAMED = 10  # more clients than this have no room for their names


@styled
def losses(run: Run) -> Figure | None:
    """Draw both fronts of each client of a run.

    None where models take no preference, losses were not kept, or objectives are not two.
    """
    spans = run.spans
    if spans is None or spans.losses is None or spans.preferences.shape[1] != 2:
        return None
    return losses_figure({"": run})


def losses_figure(runs: Mapping[str, Run]) -> Figure:
    """Draw one row per run: the front in the losses, and that in the metrics.

    Args:
        runs: Runs whose losses were kept, by title.
    """
    figure = canvas(7.2, 2.4 * len(runs) + 0.6)
    grid = figure.subplots(len(runs), 2, squeeze=False)
    clients: list[str] = []
    for (title, run), (left, right) in zip(runs.items(), grid, strict=True):
        spans, objectives = run.spans, run.configuration.get_problem().objectives
        assert spans is not None
        assert spans.losses is not None
        clients = max(clients, client_labels(run.results), key=len)
        prefix = f"{title}: " if title else ""
        sizes = _draw(left, spans.losses, [nondominated(-points) for points in spans.losses])
        left.set_title(f"{prefix}losses, fronts of {_counts(sizes)}", loc="left")
        left.set(xlabel=f"loss of {objectives[0].name}", ylabel=f"loss of {objectives[1].name}")
        sizes = _draw(right, spans.vectors, [nondominated(points) for points in spans.vectors])
        right.set_title(f"{prefix}metrics, fronts of {_counts(sizes)}", loc="left")
        right.set(xlabel=objective_label(objectives[0]), ylabel=objective_label(objectives[1]))
    handles = _names(clients)
    columns = legend_columns(figure, [str(handle.get_label()) for handle in handles])
    title = "strong: on the client's front; faint: dominated. Low losses and high metrics are good"
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": columns}
    figure.legend(handles=handles, title=title, title_fontsize=7, **place)
    return figure


def _draw(axes: Axes, sets: FloatArray, fronts: Sequence[BoolArray]) -> list[int]:
    """Draw all points of each client, its front strong; return the sizes of the fronts."""
    faint: dict[str, Any] = {"s": 4, "alpha": 0.2, "linewidth": 0}
    strong: dict[str, Any] = {"s": 7, "linewidth": 0, "zorder": 3}
    for client, (points, best) in enumerate(zip(sets, fronts, strict=True)):
        colour = line_style(client)["color"]
        axes.scatter(points[~best, 0], points[~best, 1], color=colour, **faint)
        x, y = points[best].T
        axes.scatter(x, y, color=colour, gid=f"client-{client}", **strong)
    axes.grid(True)
    return [int(best.sum()) for best in fronts]


def _counts(sizes: Sequence[int]) -> str:
    """Return the sizes of the clients' fronts, or their mean where there are many."""
    shown = ", ".join(map(str, sizes)) if len(sizes) <= 4 else f"on average {np.mean(sizes):.0f}"
    return f"{shown} points"


def _names(clients: Sequence[str]) -> list[Line2D]:
    look: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 3.5}
    if len(clients) > _NAMED:
        return [Line2D([], [], color="#222222", label=f"each of {len(clients)} clients", **look)]
    return [
        Line2D([], [], label=label, color=line_style(client)["color"], **look)
        for client, label in enumerate(clients)
    ]
