"""Conflicts of clients' updates with each other, and with the server's step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from comity.core.typing import FloatArray
from comity.report.figures.style import canvas, legend_above, line_style, styled
from comity.report.measures import fold_label, has_single_objective
from comity.report.series.conflict import SHARES, conflict_shares
from comity.report.series.learning import Runs
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults

_COLUMNS = 3
_MARKED = 15  # rounds: lines with at most so many points get markers


@styled
def conflict(run: Run) -> Figure | None:
    """Draw shares of pairs and of clients, round by round; None where none were measured."""
    return _panels({"": [run]})


@styled
def conflicts(comparison: ComparisonResults, runs: Runs) -> Figure | None:
    """Draw the same of each wrapped algorithm of a comparison: means over seeds."""
    several = not has_single_objective(comparison) and len({kind for _, kind in runs}) > 1
    return _panels(
        {f"{entry}, {kind}" if several else entry: seeds for (entry, kind), seeds in runs.items()}
    )


def _panels(runs: Mapping[str, Sequence[Run]]) -> Figure | None:
    """Draw one panel per title; runs without conflicts have none."""
    shares = {title: [conflict_shares(run) for run in seeds] for title, seeds in runs.items()}
    shares = {title: seeds for title, seeds in shares.items() if seeds and all(map(len, seeds))}
    if not shares:
        return None
    columns = min(_COLUMNS, len(shares))
    lines = -(-len(shares) // columns)
    figure = canvas(5.0 if columns == 1 else 2.4 * columns, 2.1 * lines + 0.8)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(shares) :]:
        axes.axis("off")
    for axes, (title, seeds) in zip(grid.flat, shares.items(), strict=False):
        _panel(axes, seeds)
        axes.set_title(fold_label(title))
    figure.supxlabel("round", fontsize=8)
    figure.supylabel("share", fontsize=8)
    legend_above(figure, grid.flat[0])
    return figure


def _panel(axes: Axes, seeds: Sequence[FloatArray]) -> None:
    length = min(map(len, seeds))
    values = np.stack([shares[:length] for shares in seeds])
    rounds, means, stds = values[0, :, 0], values.mean(axis=0)[:, 1:], values.std(axis=0)[:, 1:]
    for index, label in enumerate(SHARES.values()):
        look, mean, std = line_style(index), means[:, index], stds[:, index]
        # a line that lies on another must not hide it
        look |= {"linewidth": 2.7 - 0.8 * index, "markersize": 5.5 - 1.3 * index}
        axes.plot(rounds, mean, marker="o" if length <= _MARKED else "", label=label, **look)
        axes.fill_between(rounds, mean - std, mean + std, color=look["color"], alpha=0.12, lw=0)
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5, min_n_ticks=1))
    axes.grid(True, axis="y")
