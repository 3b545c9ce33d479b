"""Clusters by round, over seeds: their sizes, their number, and how well they fit groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import FloatArray
from comity.report.colours import FAINT
from comity.report.figures.style import canvas, legend_above, line_style, styled
from comity.report.measures import fold_label
from comity.runs.reproduction_schema import ClusterResults, ClusterRound, ClusterRow


@styled
def cluster_rounds(results: ClusterResults) -> Figure:
    """Draw the number of clusters and, where clients share preferences, the Rand index by round.

    One column of panels per specification of preferences, one colour per entry: the mean over
    seeds, and each seed as a faint line. Grey lines are the rounds that the thesis shows.
    """
    kinds = _kinds(results["rows"])
    values: dict[str, Callable[[ClusterRound], Sequence[float]]] = {
        "number of clusters": lambda entry: [len(sizes) for sizes in entry["sizes"]]
    }
    if any("adjusted_rand" in row["rounds"][0] for row in results["rows"]):
        values["adjusted Rand index"] = lambda entry: entry["adjusted_rand"]
    figure = canvas(max(4.4, 3.1 * len(kinds)), 1.9 * len(values) + 0.6)
    grid = figure.subplots(len(values), len(kinds), squeeze=False, sharex="col", sharey="row")
    entries = list(dict.fromkeys(row["algorithm"] for row in results["rows"]))
    for panels, (label, value) in zip(grid, values.items(), strict=True):
        for axes, kind in zip(panels, kinds, strict=True):
            rows = [row for row in results["rows"] if row["preferences"] == kind]
            for number in rows[0]["shown"][:-1]:
                axes.axvline(number, color=FAINT, linewidth=0.8, zorder=0)
            for row in rows:
                _lines(axes, row, value, entries.index(row["algorithm"]))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid(True, axis="y")
        panels[0].set_ylabel(label)
    for axes, kind in zip(grid[0], kinds, strict=True):
        axes.set_title(kind)
    for axes in grid[-1]:
        axes.set_xlabel("round")
    legend_above(figure, grid[0, 0])
    return figure


@styled
def cluster_sizes(results: ClusterResults) -> Figure:
    """Draw the share of clients in clusters of each size by round, mean over seeds.

    One row of panels per specification of preferences, one column per entry.
    """
    rows, kinds = results["rows"], _kinds(results["rows"])
    entries = list(dict.fromkeys(row["algorithm"] for row in rows))
    figure = canvas(max(4.4, 2.4 * len(entries) + 1.0), 2.0 * len(kinds) + 0.4)
    grid = figure.subplots(len(kinds), len(entries), squeeze=False)
    for row in rows:
        axes = grid[kinds.index(row["preferences"]), entries.index(row["algorithm"])]
        rounds, clients = len(row["rounds"]), row["clients"]
        image = axes.imshow(
            _shares(row),
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            cmap="Blues",
            vmin=0,
            vmax=1,
            extent=(0.5, rounds + 0.5, 0.5, clients + 0.5),
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
        axes.set_title(f"{fold_label(row['algorithm'])}\n{row['preferences']}", fontsize=7)
    for axes in grid[-1]:
        axes.set_xlabel("round")
    for axes in grid[:, 0]:
        axes.set_ylabel("size of a cluster")
    bar = figure.colorbar(image, ax=grid.ravel().tolist(), aspect=25, pad=0.015)
    bar.set_label("share of the clients")
    bar.outline.set_visible(False)
    return figure


def _kinds(rows: Sequence[ClusterRow]) -> list[str]:
    return list(dict.fromkeys(row["preferences"] for row in rows))


def _lines(
    axes: Axes, row: ClusterRow, value: Callable[[ClusterRound], Sequence[float]], index: int
) -> None:
    x = [entry["round"] for entry in row["rounds"]]
    seeds = np.array([value(entry) for entry in row["rounds"]], dtype=float)
    look = line_style(index)
    if seeds.shape[1] > 1:
        axes.plot(x, seeds, color=look["color"], linewidth=0.6, alpha=0.4, gid="seed")
    axes.plot(x, seeds.mean(axis=1), label=row["algorithm"], gid="mean", **look)


def _shares(row: ClusterRow) -> FloatArray:
    """Return (sizes x rounds): the share of clients in clusters of a size, mean over seeds."""
    shares = np.zeros((row["clients"], len(row["rounds"])))
    for column, entry in enumerate(row["rounds"]):
        for sizes in entry["sizes"]:
            np.add.at(shares[:, column], np.array(sizes) - 1, sizes)
    return shares / (row["clients"] * len(row["seeds"]))
