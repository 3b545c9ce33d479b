"""What a reinforcement-learning agent on the server does: weights, rewards, what it sees."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import FloatArray
from comity.report.figures.style import (
    GREY,
    MARKERS,
    PALETTE,
    WEIGHTS,
    canvas,
    legend_above,
    series,
    styled,
)
from comity.report.series.agent import AgentDiagnostics, deeds
from comity.runs.directory import Run

_LABELS = ("a good model (r₁)", "better than before (r₂)", "weights by likeness (r₃)")
_KINDS = 7  # more kinds of clients than this cannot be told apart by colour


@styled
def allotted(run: Run) -> Figure | None:
    """Who takes how much of whose head, beside what their data have in common."""
    found = deeds(run)
    if found is None:
        return None
    several = found.overlap is not None
    figure = canvas(7.2 if several else 2.8, 2.5)
    panels = figure.subplots(1, 3 if several else 1, squeeze=False)[0]
    _matrix(panels[0], found.weights, "weight of the giver's head")
    if found.overlap is not None:
        _matrix(panels[1], found.overlap, "classes in common")
        _by_overlap(panels[2], found.weights, found.overlap)
    return figure


def _matrix(axes: Axes, matrix: FloatArray, title: str) -> None:
    image = axes.imshow(matrix, cmap="Blues", vmin=0.0, interpolation="nearest")
    axes.set(xlabel="giver", ylabel="receiver", title=title)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    assert axes.figure is not None
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.outline.set_visible(False)


def _by_overlap(axes: Axes, weights: FloatArray, overlap: FloatArray) -> None:
    """One point a pair of clients, and the mean over pairs that have as much in common."""
    apart = ~np.eye(len(weights), dtype=bool)
    x, y = overlap[apart], weights[apart]
    axes.scatter(x, y, s=8, color=PALETTE[0], alpha=0.4, linewidth=0, label="pairs of clients")
    bins = np.clip((x * 5).astype(int), 0, 4)
    full = [b for b in range(5) if (bins == b).any()]
    means = [(x[bins == b].mean(), y[bins == b].mean()) for b in full]
    axes.plot(*np.transpose(means), color=PALETTE[1], marker="o", markersize=4, label="means")
    own = float(weights.diagonal().mean())
    axes.axhline(own, color=GREY, linestyle="--", linewidth=1, label="one's own head, mean")
    axes.set(xlabel="classes in common", ylabel="weight", title="who has more in common")
    axes.set_ylim(0, 1.6 * max(own, float(y.max())))  # with room for a legend
    axes.legend(loc="upper left")


@styled
def agent_rewards(run: Run) -> Figure | None:
    """The terms of the agent's reward, round by round; None before there was any."""
    found = deeds(run)
    if found is None or not len(found.rounds):
        return None
    figure = canvas(5.0, 2.6)
    axes = figure.subplots()
    for place, label in enumerate(_LABELS):
        look = series(place)
        axes.plot(found.rounds, found.rewards[:, place], label=label, **look)
    axes.axhline(0.0, color=GREY, linewidth=0.6)
    axes.set(xlabel="round", ylabel="reward, mean over clients")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, axis="y")
    legend_above(figure, axes)
    return figure


@styled
def embeddings(run: Run) -> Figure | None:
    """Where clients are for the agent, beside the principal components that it sees them by."""
    found = deeds(run)
    if found is None or found.embeddings is None or found.tokens is None or len(found.weights) < 3:
        return None
    figure = canvas(5.6, 2.9)
    left, right = figure.subplots(1, 2)
    _places(left, found.embeddings, found)
    left.set_title("the encoder's embeddings")
    _places(right, found.tokens, found)
    right.set_title("the heads' principal components")
    if len(set(found.kinds)) in range(1, _KINDS + 1):
        legend_above(figure, left)
    return figure


def _places(axes: Axes, vectors: FloatArray, found: AgentDiagnostics) -> None:
    """The two directions in which clients differ most."""
    centred = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :2] * sizes[:2]
    kinds = list(dict.fromkeys(found.kinds))
    if 1 <= len(kinds) <= _KINDS:
        for place, kind in enumerate(kinds):
            own = np.array([k == kind for k in found.kinds])
            axes.scatter(
                points[own, 0],
                points[own, 1],
                s=22,
                color=PALETTE[place],
                marker=MARKERS[place],
                linewidth=0,
                label=f"classes {kind}",
            )
    else:
        colours = [kinds.index(kind) for kind in found.kinds] if kinds else None
        look = WEIGHTS if kinds else None
        axes.scatter(points[:, 0], points[:, 1], s=22, linewidth=0, c=colours, cmap=look)
    for client, point in enumerate(points):
        axes.annotate(str(client), point, fontsize=5, xytext=(2, 2), textcoords="offset points")
    axes.set_xticks([])
    axes.set_yticks([])
