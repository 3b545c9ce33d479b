"""Weights, rewards and embeddings of a reinforcement-learning agent on the server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import FloatArray
from comity.report.colours import GREY, PALETTE, WEIGHTS
from comity.report.figures.style import (
    MARKERS,
    canvas,
    legend_above,
    line_style,
    styled,
)
from comity.report.series.agent import AgentDiagnostics, agent_diagnostics
from comity.runs.directory import Run

_LABELS = ("a good model (r₁)", "better than before (r₂)", "weights by likeness (r₃)")
_KINDS = 7  # colours differ enough for at most so many kinds of clients


@styled
def agent_weights(run: Run) -> Figure | None:
    """Draw the weights of givers' heads, beside the classes that clients have in common."""
    agent = agent_diagnostics(run)
    if agent is None:
        return None
    several = agent.overlap is not None
    figure = canvas(7.2 if several else 2.8, 2.5)
    panels = figure.subplots(1, 3 if several else 1, squeeze=False)[0]
    _matrix(panels[0], agent.weights, "weight of the giver's head")
    if agent.overlap is not None:
        _matrix(panels[1], agent.overlap, "classes in common")
        _by_overlap(panels[2], agent.weights, agent.overlap)
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
    """Draw one point per pair of clients, and means over pairs with similar overlap."""
    pairs = ~np.eye(len(weights), dtype=bool)
    x, y = overlap[pairs], weights[pairs]
    axes.scatter(x, y, s=8, color=PALETTE[0], alpha=0.4, linewidth=0, label="pairs of clients")
    bins = np.clip((x * 5).astype(int), 0, 4)
    full = [b for b in range(5) if (bins == b).any()]
    means = [(x[bins == b].mean(), y[bins == b].mean()) for b in full]
    axes.plot(*np.transpose(means), color=PALETTE[1], marker="o", markersize=4, label="means")
    own_head = float(weights.diagonal().mean())
    axes.axhline(own_head, color=GREY, linestyle="--", linewidth=1, label="one's own head, mean")
    axes.set(xlabel="classes in common", ylabel="weight", title="who has more in common")
    axes.set_ylim(0, 1.6 * max(own_head, float(y.max())))  # with room for a legend
    axes.legend(loc="upper left")


@styled
def agent_rewards(run: Run) -> Figure | None:
    """Draw the terms of the agent's reward, round by round; None before the first reward."""
    agent = agent_diagnostics(run)
    if agent is None or not len(agent.rounds):
        return None
    figure = canvas(5.0, 2.6)
    axes = figure.subplots()
    for index, label in enumerate(_LABELS):
        look = line_style(index)
        axes.plot(agent.rounds, agent.rewards[:, index], label=label, **look)
    axes.axhline(0.0, color=GREY, linewidth=0.6)
    axes.set(xlabel="round", ylabel="reward, mean over clients")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, axis="y")
    legend_above(figure, axes)
    return figure


@styled
def embeddings(run: Run) -> Figure | None:
    """Draw the clients' embeddings, beside the principal components that they are made of."""
    agent = agent_diagnostics(run)
    if agent is None or agent.embeddings is None or agent.tokens is None or len(agent.weights) < 3:
        return None
    names = run.configuration.get_names()
    figure = canvas(5.6, 2.9)
    left, right = figure.subplots(1, 2)
    _scatter(left, agent.embeddings, agent, names)
    left.set_title("the encoder's embeddings")
    _scatter(right, agent.tokens, agent, names)
    right.set_title("the heads' principal components")
    if len(set(agent.kinds)) in range(1, _KINDS + 1):
        legend_above(figure, left)
    return figure


def _scatter(
    axes: Axes, vectors: FloatArray, agent: AgentDiagnostics, names: Sequence[str]
) -> None:
    """Draw clients along the two directions in which they differ most."""
    centred = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :2] * sizes[:2]
    kinds = list(dict.fromkeys(agent.kinds))
    if 1 <= len(kinds) <= _KINDS:
        for index, kind in enumerate(kinds):
            members = np.array([k == kind for k in agent.kinds])
            axes.scatter(
                points[members, 0],
                points[members, 1],
                s=22,
                color=PALETTE[index],
                marker=MARKERS[index],
                linewidth=0,
                label=f"classes {kind}",
            )
    else:
        colours = [kinds.index(kind) for kind in agent.kinds] if kinds else None
        look = WEIGHTS if kinds else None
        axes.scatter(points[:, 0], points[:, 1], s=22, linewidth=0, c=colours, cmap=look)
    for name, point in zip(names, points, strict=True):
        axes.annotate(name, point, fontsize=5, xytext=(2, 2), textcoords="offset points")
    axes.set_xticks([])
    axes.set_yticks([])
