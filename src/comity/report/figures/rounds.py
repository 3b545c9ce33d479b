"""How good a single objective's models were before and after local training."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from comity.report.figures.marks import CONSTANT
from comity.report.figures.style import GREY, canvas, series, styled
from comity.report.series.curves import MEANINGS, curves, validated
from comity.runs.directory import Run

_MARKED = 15  # rounds; so few points would not be seen in a line


@styled
def rounds(run: Run) -> Figure:
    """Means over the clients, round by round, and bands that hold the middle half of them."""
    found, last = curves(run), run.configuration.rounds
    figure = canvas(5.0, 2.9)
    axes = figure.subplots()
    marker = "o" if len(found.rounds) <= _MARKED else ""
    for place, kind in enumerate(("trained", "received")):
        line, look = found.mean(kind), series(place)
        known = np.isfinite(line)
        at = found.rounds[known]
        axes.plot(at, line[known], marker=marker, markersize=3, label=MEANINGS[kind], **look)
        low, high = (edge[known] for edge in found.quartiles(kind))
        axes.fill_between(at, low, high, color=look["color"], alpha=0.15, linewidth=0)
    watched = {e["round"]: np.mean(e["everyone"]) for e in run.history if "everyone" in e}
    if watched and run.configuration.participation < 1:
        look = {"color": series(2)["color"], "linestyle": "none", "marker": "D", "markersize": 4}
        axes.plot(list(watched), list(watched.values()), label="all clients, at that time", **look)
    objective = run.configuration.get_problem().objectives[0].name
    trivial = run.results["trivial"].get(objective)
    if trivial is not None:
        look = {"color": GREY, "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
        axes.axhline(trivial, label=f"{CONSTANT} (test)", **look)
    axes.set(xlabel="round (end: what clients received after the last)", ylabel=validated(run))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "end" if x > last else f"{x:.0f}"))
    axes.grid(True, axis="y")
    figure.legend(loc="outside upper center", ncols=3, columnspacing=1.4)
    return figure
