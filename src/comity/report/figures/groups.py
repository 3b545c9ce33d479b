"""Rates of the answer yes, by attribute value and client."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comity.report.colours import PALETTE
from comity.report.figures.style import MARKERS, canvas, legend_columns, styled
from comity.runs.directory import Run
from comity.runs.group_schema import Groups

MOST_CLIENTS = 60
"""More clients than this have no room in the picture."""


@styled
def groups(run: Run) -> Figure | None:
    """Draw one panel per attribute: selection rates with intervals, clients across.

    None where the run has no groups, or too many clients.
    """
    measured = run.groups
    if measured is None or len(measured["clients"]) > MOST_CLIENTS:
        return None
    attributes = list(measured["together"]["attributes"])
    width = min(7.2, 3.6 + 0.3 * len(measured["clients"]))
    figure = canvas(width, 2.5 * len(attributes) + 0.2)
    panels = figure.subplots(len(attributes), 1, squeeze=False, sharex=True)[:, 0]
    for axes, attribute in zip(panels, attributes, strict=True):
        _panel(axes, measured, attribute)
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(
            handles,
            labels,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=legend_columns(figure, labels),
        )
    names = [*(client["name"] for client in measured["clients"]), "together"]
    long = len(names) * (max(map(len, names)) + 2) > 15 * width  # characters on a line
    panels[-1].set_xticks(range(len(names)), names, rotation=90 if long else 0)
    panels[-1].set_xlabel("client")
    return figure


def _panel(axes: Axes, measured: Groups, attribute: str) -> None:
    parts = [*measured["clients"], measured["together"]]
    names = list(measured["together"]["attributes"][attribute]["values"])
    for number, name in enumerate(names):
        rates = [part["attributes"][attribute]["values"][name]["selection_rate"] for part in parts]
        # None, where a client has nobody with this value, becomes nan
        ends = np.array([[r["value"], r["low"], r["high"]] for r in rates], dtype=np.float64).T
        value, low, high = ends
        axes.errorbar(
            np.arange(len(parts)) + 0.6 * ((number + 0.5) / len(names) - 0.5),
            value,
            # rounding must not make a bar negative
            np.maximum([value - low, high - value], 0.0),
            fmt=MARKERS[number % len(MARKERS)],
            color=PALETTE[number % len(PALETTE)],
            markersize=3.5,
            linewidth=1.0,
            label=f"{attribute} = {name}",
        )
    axes.axvline(len(parts) - 1.5, color="#b0b0b0", linewidth=0.6)
    axes.set(ylim=(-0.03, 1.03), xlim=(-0.6, len(parts) - 0.4), ylabel="answered yes")
    axes.tick_params(axis="x", length=0)
    axes.grid(True, axis="y")
