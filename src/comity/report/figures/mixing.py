"""Mixing matrices: who learns from whom."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from comity.core.typing import FloatArray, IntArray
from comity.report.figures.style import canvas, styled
from comity.report.measures import has_single_objective
from comity.report.series.mixing import mixing_series
from comity.runs.directory import Run

_NAMED = 24  # more clients than this have no room for their names


@styled
def mixing(run: Run) -> Figure | None:
    """Draw the mixing matrix at up to four rounds; None if the clients never mixed.

    Clients are in the order of their weight on the first objective, so that structure shows.
    """
    series = mixing_series(run)
    if series is None:
        return None
    matrices = series.matrices
    largest = max(float(np.nanmax(m)) for m in matrices if np.isfinite(m).any())
    norm = PowerNorm(0.5, vmin=0.0, vmax=largest)  # small weights matter too
    figure = canvas(1.75 * len(matrices) + 0.9, 2.45)
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axes, number, matrix in zip(panels, series.rounds, matrices, strict=True):
        image = _panel(axes, matrix, series.order, norm)
        axes.set_title(f"round {number}")
        axes.set_xlabel("giver")
    panels[0].set_ylabel("receiver")
    bar = figure.colorbar(image, ax=panels.tolist(), aspect=22, pad=0.015, shrink=0.85)
    bar.set_label("weight")
    bar.outline.set_visible(False)
    if not has_single_objective(run.results):
        first = run.configuration.get_problem().objectives[0].name
        figure.supxlabel(f"clients by their weight on {first}, lightest first", fontsize=7)
    if any(np.isnan(matrix).any() for matrix in matrices):
        absent = Patch(facecolor="#ededed", edgecolor="#b0b0b0", hatch="////", label="absent")
        figure.legend(handles=[absent], loc="upper left", borderaxespad=0.1)
    return figure


def _panel(axes: Axes, matrix: FloatArray, order: IntArray, norm: PowerNorm) -> AxesImage:
    image = axes.imshow(matrix, cmap="Blues", norm=norm, interpolation="nearest")
    for row in np.flatnonzero(np.isnan(matrix).all(axis=1)):
        axes.add_patch(
            Rectangle(
                (-0.5, row - 0.5),
                len(matrix),
                1,
                facecolor="#ededed",
                edgecolor="#b0b0b0",
                linewidth=0,
                hatch="//////",
            )
        )
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#b0b0b0")
    axes.tick_params(length=0, pad=1.5, labelsize=5)
    names = [str(client) for client in order] if len(order) <= _NAMED else []
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    return image
