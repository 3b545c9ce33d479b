"""Algorithms under attack, as a heat map."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from comity.report.figures.style import canvas, styled
from comity.report.measures import number
from comity.report.series.attacks import attacked
from comity.runs.schema import ComparisonResults


@styled
def attacks(comparison: ComparisonResults) -> Figure | None:
    """Draw entries down and attacks across; None where nobody attacks.

    Args:
        comparison: The content of ``comparison.json``.
    """
    tables = attacked(comparison)
    if not tables:
        return None
    rows, columns = len(tables[0].entries), len(tables[0].attacks)
    figure = canvas(2.4 + 0.75 * columns, (0.9 + 0.34 * rows) * len(tables))
    every = np.concatenate([table.means.ravel() for table in tables])
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    for axes, table in zip(
        figure.subplots(len(tables), 1, squeeze=False).ravel(), tables, strict=True
    ):
        axes.set_facecolor("#ededed")
        image = axes.imshow(table.means, cmap="viridis", vmin=low, vmax=high, aspect="auto")
        for (row, column), value in np.ndenumerate(table.means):
            if np.isfinite(value):
                dark = value < (low + high) / 2
                colour = "white" if dark else "#222222"
                axes.text(
                    column, row, number(value, 3), ha="center", va="center", color=colour, size=7
                )
        axes.set_xticks(range(columns), table.attacks, rotation=30, ha="right", size=7)
        axes.set_yticks(range(rows), table.entries, size=7)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if len(tables) > 1:
            axes.set_title(f"{table.preferences} preferences")
        bar = figure.colorbar(image, ax=axes, aspect=16, pad=0.02)
        bar.set_label("scalarised value,\nhonest clients", size=7)
        bar.outline.set_visible(False)
    return figure
