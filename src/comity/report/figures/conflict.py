"""How much clients' updates are against each other, and against the server's step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from comity.core.typing import FloatArray
from comity.report.figures.learning import Runs
from comity.report.figures.style import canvas, legend_above, series, styled
from comity.report.measures import folded, single
from comity.runs.directory import Run

_SHARES = {
    "pairs": "pairs of clients whose updates point apart",
    "mean": "clients against the plain mean",
    "guided": "clients against the step taken",
}
_COLUMNS = 3
_MARKED = 15  # rounds; so few points would not be seen in a line


@styled
def conflict(run: Run) -> Figure | None:
    """Shares of pairs and of clients, round by round; None where nobody measured them."""
    return _panels({"": [run]})


@styled
def conflicts(comparison: Mapping[str, Any], runs: Runs) -> Figure | None:
    """The same of each wrapped algorithm of a comparison: means over seeds."""
    several = not single(comparison) and len({preferences for _, preferences in runs}) > 1
    return _panels({", ".join(key) if several else key[0]: group for key, group in runs.items()})


def _panels(named: Mapping[str, Sequence[Run]]) -> Figure | None:
    found = {name: [_told(run) for run in runs] for name, runs in named.items()}
    found = {name: told for name, told in found.items() if told and all(map(len, told))}
    if not found:
        return None
    columns = min(_COLUMNS, len(found))
    lines = -(-len(found) // columns)
    figure = canvas(5.0 if columns == 1 else 2.4 * columns, 2.1 * lines + 0.8)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[len(found) :]:
        axes.axis("off")
    for axes, (name, told) in zip(grid.flat, found.items(), strict=False):
        _panel(axes, told)
        axes.set_title(folded(name))
    figure.supxlabel("round", fontsize=8)
    figure.supylabel("share", fontsize=8)
    legend_above(figure, grid.flat[0])
    return figure


def _told(run: Run) -> FloatArray:
    """Rounds in which conflicts were measured, and what was found: a column each."""
    entries = [entry for entry in run.history if entry.get("conflict")]
    return np.array([[e["round"], *(e["conflict"][name] for name in _SHARES)] for e in entries])


def _panel(axes: Axes, told: Sequence[FloatArray]) -> None:
    length = min(map(len, told))
    values = np.stack([lines[:length] for lines in told])
    rounds, means, stds = values[0, :, 0], values.mean(axis=0)[:, 1:], values.std(axis=0)[:, 1:]
    for place, label in enumerate(_SHARES.values()):
        look, mean, std = series(place), means[:, place], stds[:, place]
        # a line that lies on another must not hide it
        look |= {"linewidth": 2.7 - 0.8 * place, "markersize": 5.5 - 1.3 * place}
        axes.plot(rounds, mean, marker="o" if length <= _MARKED else "", label=label, **look)
        axes.fill_between(rounds, mean - std, mean + std, color=look["color"], alpha=0.12, lw=0)
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5, min_n_ticks=1))
    axes.grid(True, axis="y")
