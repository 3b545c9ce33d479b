"""Matrices between clients: who learns from whom, and who is like whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from comity.core.typing import BoolArray, FloatArray
from comity.report.colours import PALETTE
from comity.report.figures.style import canvas, styled
from comity.report.measures import has_single_objective
from comity.report.series.mixing import MixingSeries, mixing_series, similarity_series
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
    figure = _heat_maps(run, series, norm, "Blues", "weight")
    for axes in figure.axes[: len(matrices)]:
        axes.set_xlabel("giver")
    figure.axes[0].set_ylabel("receiver")
    handles: list[Artist] = []
    if any(np.isnan(matrix).any() for matrix in matrices):
        handles.append(
            Patch(facecolor="#ededed", edgecolor="#b0b0b0", hatch="////", label="absent")
        )
    if series.heard:
        handles.append(_mark_contacts(figure.axes[: len(matrices)], series.heard))
    if handles:
        figure.legend(handles=handles, loc="upper left", borderaxespad=0.1)
    return figure


def _mark_contacts(panels: Sequence[Axes], graphs: Sequence[BoolArray]) -> Artist:
    """Mark in each panel which receiver heard which giver; return the legend's entry."""
    dots: dict[str, Any] = {"linestyle": "", "marker": "o", "color": PALETTE[1]}
    for axes, graph in zip(panels, graphs, strict=True):
        receivers, givers = np.nonzero(graph)
        axes.plot(givers, receivers, markersize=min(2.5, 30 / len(graph)), **dots)
    return Line2D([], [], markersize=2.5, label="heard", **dots)


@styled
def similarity(run: Run, rounds: Sequence[int] | None = None) -> Figure | None:
    """Draw the similarity of clients' changes at some rounds; None if it was not recorded.

    Pairs that were not compared are grey. The diagonal, which is 1, does not count for colours.

    Args:
        run: The run.
        rounds: The rounds; None: up to four between which something changes.
    """
    series = similarity_series(run, rounds)
    if series is None:
        return None
    pairs = np.concatenate([matrix[~np.eye(len(matrix), dtype=bool)] for matrix in series.matrices])
    largest = float(np.nanmax(np.abs(pairs), initial=0.01))
    figure = _heat_maps(run, series, Normalize(-largest, largest), "RdBu", "similarity")
    if np.isnan(pairs).any():
        apart = Patch(facecolor="#ededed", edgecolor="#b0b0b0", label="not compared")
        figure.legend(handles=[apart], loc="outside upper left", borderaxespad=0.1)
    return figure


def _heat_maps(run: Run, series: MixingSeries, norm: Normalize, colours: str, label: str) -> Figure:
    """Draw one panel per round, with one bar of colours."""
    count = len(series.matrices)
    figure = canvas(1.75 * count + 0.9, 2.45)
    panels = figure.subplots(1, count, squeeze=False)[0]
    every = run.configuration.get_names()
    names = [every[client] for client in series.order]
    for axes, number, matrix in zip(panels, series.rounds, series.matrices, strict=True):
        image = _panel(axes, matrix, names, norm, colours)
        axes.set_title(f"round {number}")
    bar = figure.colorbar(image, ax=panels.tolist(), aspect=22, pad=0.015, shrink=0.85)
    bar.set_label(label)
    bar.outline.set_visible(False)
    if not has_single_objective(run.results):
        first = run.configuration.get_problem().objectives[0].name
        figure.supxlabel(f"clients by their weight on {first}, lightest first", fontsize=7)
    return figure


def _panel(
    axes: Axes, matrix: FloatArray, clients: Sequence[str], norm: Normalize, colours: str
) -> AxesImage:
    axes.set_facecolor("#ededed")
    image = axes.imshow(matrix, cmap=colours, norm=norm, interpolation="nearest")
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
    names = clients if len(clients) <= _NAMED else []
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks(range(len(names)), names)
    return image
