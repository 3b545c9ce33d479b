"""Who learns from whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch, Rectangle

from comity.core.typing import FloatArray, IntArray
from comity.report.figures.style import canvas, styled
from comity.report.measures import single
from comity.report.series.curves import preferences_of
from comity.runs.directory import Run

_NAMED = 24  # more clients than this have no room for their names


@styled
def mixing(run: Run) -> Figure | None:
    """The mixing matrix at up to four rounds; None if the clients never mixed.

    Clients are in the order of their weight on the first objective, so that structure shows.
    """
    chosen = _chosen([entry for entry in run.history if entry["mixing"] is not None])
    if not chosen:
        return None
    order = np.argsort(preferences_of(run)[:, 0], kind="stable")
    matrices = [_ordered(entry["mixing"], order) for entry in chosen]
    largest = max(float(np.nanmax(m)) for m in matrices if np.isfinite(m).any())
    norm = PowerNorm(0.5, vmin=0.0, vmax=largest)  # small weights matter too
    figure = canvas(1.75 * len(chosen) + 0.9, 2.45)
    panels = figure.subplots(1, len(chosen), squeeze=False)[0]
    for axes, entry, matrix in zip(panels, chosen, matrices, strict=True):
        image = _panel(axes, matrix, order, norm)
        axes.set_title(f"round {entry['round']}")
        axes.set_xlabel("giver")
    panels[0].set_ylabel("receiver")
    bar = figure.colorbar(image, ax=panels.tolist(), aspect=22, pad=0.015, shrink=0.85)
    bar.set_label("weight")
    bar.outline.set_visible(False)
    if not single(run.results):
        first = run.configuration.get_problem().objectives[0].name
        figure.supxlabel(f"clients by their weight on {first}, lightest first", fontsize=7)
    if any(np.isnan(matrix).any() for matrix in matrices):
        absent = Patch(facecolor="#ededed", edgecolor="#b0b0b0", hatch="////", label="absent")
        figure.legend(handles=[absent], loc="upper left", borderaxespad=0.1)
    return figure


def _chosen(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first, the one from which on little changes, and two between."""
    if not entries:
        return []
    matrices = [np.array(entry["mixing"], dtype=float) for entry in entries]
    moving = [
        place
        for place, matrix in enumerate(matrices)
        if np.nanmax(np.abs(matrix - matrices[-1]), initial=0.0) > 0.05
    ]
    settled = min(moving[-1] + 1, len(entries) - 1) if moving else 0
    places = np.unique(np.linspace(0, settled, 4).round().astype(int))
    return [entries[place] for place in places]


def _ordered(matrix: list[list[float | None]], order: IntArray) -> FloatArray:
    return np.array(matrix, dtype=float)[np.ix_(order, order)]


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
