"""Scores of a single objective before and after local training, round by round."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from comity.report.colours import GREY
from comity.report.figures.style import canvas, line_style, styled
from comity.report.series.baselines import CONSTANT
from comity.report.series.curves import (
    MEANINGS,
    Kind,
    curves,
    validation_label,
)
from comity.runs.directory import Run
from comity.runs.how_soon import validation_of_all

_KINDS: tuple[Kind, ...] = ("trained", "received")
_MARKED = 15  # rounds: lines with at most so many points get markers


@styled
def rounds(run: Run) -> Figure:
    """Draw means over the clients, round by round, and bands with the middle half of them."""
    history, last = curves(run), run.configuration.rounds
    figure = canvas(5.0, 2.9)
    axes = figure.subplots()
    marker = "o" if len(history.rounds) <= _MARKED else ""
    for index, kind in enumerate(_KINDS):
        line, look = history.mean(kind), line_style(index)
        known = np.isfinite(line)
        at = history.rounds[known]
        axes.plot(at, line[known], marker=marker, markersize=3, label=MEANINGS[kind], **look)
        low, high = (edge[known] for edge in history.quartiles(kind))
        axes.fill_between(at, low, high, color=look["color"], alpha=0.15, linewidth=0)
    every = validation_of_all(run)
    if every and run.configuration.participation < 1:
        look = {
            "color": line_style(2)["color"],
            "linestyle": "none",
            "marker": "D",
            "markersize": 4,
        }
        axes.plot(list(every), list(every.values()), label="all clients, at that time", **look)
    objective = run.configuration.get_problem().objectives[0].name
    trivial = run.results["trivial"].get(objective)
    if trivial is not None:
        look = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
        axes.axhline(trivial, label=f"{CONSTANT} (test)", **look)
    axes.set(
        xlabel="round (end: what clients received after the last)", ylabel=validation_label(run)
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "end" if x > last else f"{x:.0f}"))
    axes.grid(True, axis="y")
    figure.legend(loc="outside upper center", ncols=3, columnspacing=1.4)
    return figure
