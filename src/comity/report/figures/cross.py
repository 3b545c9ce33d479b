"""Every client's model on every client's data."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from comity.report.figures.style import canvas, styled
from comity.report.measures import number
from comity.report.series.cross import served, values
from comity.runs.directory import Run

_WRITTEN = 12  # more clients than this have no room for numbers in the cells
_NAMED = 60  # more clients than this have no room for their names


@styled
def cross(run: Run) -> Figure | None:
    """Draw models down and clients across; None until `comity cross` has measured them.

    Colours are gains over the client's own model, on its data and by its preference.
    """
    table = run.cross
    if table is None:
        return None
    matrix, names = values(table), table["clients"]
    gains = matrix - np.diag(matrix)
    count = len(names)
    side = max(1.6, min(6.0, 0.42 * count if count <= _WRITTEN else 0.2 * count))
    figure = canvas(side + 1.9, side + 0.9)
    axes = figure.subplots()
    axes.set_facecolor("#ededed")
    most = float(np.nanmax(np.abs(gains), initial=1e-6))
    image = axes.imshow(gains, cmap="RdBu", vmin=-most, vmax=most, interpolation="nearest")
    if count <= _WRITTEN:
        for (model, client), value in np.ndenumerate(matrix):
            dark = abs(gains[model, client]) > 0.6 * most
            colour = "white" if dark else "#222222"
            axes.text(
                client, model, number(value, 2), ha="center", va="center", color=colour, size=6
            )
    for client, row in enumerate(served(table)):
        corner = client - 0.5, table["models"].index(row.best) - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#222222", linewidth=1.2))
    if count <= _NAMED:
        size = 7 if count <= _WRITTEN else 5
        long = max(map(len, names)) > 4
        axes.set_xticks(range(count), names, rotation=90 if long else 0, size=size)
        axes.set_yticks(range(count), names, size=size)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set(xlabel="on the data of", ylabel="model of")
    bar = figure.colorbar(image, ax=axes, aspect=22, pad=0.02, shrink=0.85)
    bar.set_label("gain over own model")
    bar.outline.set_visible(False)
    return figure
