"""Clusters of clients over the rounds."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import IntArray
from comity.report.colours import GREY, PALETTE, WEIGHTS
from comity.report.figures.style import canvas, styled
from comity.report.measures import has_single_objective
from comity.report.series.clusters import ClusterTree, cluster_tree
from comity.report.series.curves import preferences_of
from comity.runs.directory import Run

_NAMED = 60  # more clients than this have no room for their names
_FRAME, _LETTERS = 0.5, 13  # inches above and below the lines; letters of a label per inch
_BEND = 0.7  # rounds that a split takes in the picture


@styled
def clusters(run: Run) -> Figure | None:
    """Draw one line per client: together while in one cluster, branching where it splits.

    None for algorithms that have no clusters.
    """
    weights = preferences_of(run)[:, 0]
    tree = cluster_tree(run.history, weights)
    if tree is None:
        return None
    count = len(weights)
    height = min(max(1.8, 0.145 * count + 0.9), 9.0)
    figure = canvas(6.2, height)
    axes = figure.subplots()
    final, single_objective = tree.labels[-1], has_single_objective(run.results)
    means = [weights[final == label].mean() for label in final]
    _lines(axes, tree, [PALETTE[0] if single_objective else WEIGHTS(mean) for mean in means])
    _nodes(axes, tree)
    _frame(axes, tree, run.configuration.get_names())
    if not single_objective:
        colours = ScalarMappable(Normalize(0, 1), WEIGHTS)
        bar = figure.colorbar(colours, ax=axes, aspect=30, pad=0.02)
        first = run.configuration.get_problem().objectives[0].name
        label = f"mean weight on {first} in the final cluster"
        bar.set_label(textwrap.fill(label, int(_LETTERS * (height - _FRAME))))
        bar.outline.set_visible(False)
    return figure


def _lines(axes: Axes, tree: ClusterTree, colours: Sequence[Any]) -> None:
    heights, bend = tree.heights, np.linspace(0.0, 1.0, 12)
    ease = bend**2 * (3 - 2 * bend)
    paths = []
    for client in range(len(colours)):
        line = heights[:, client]
        path = [np.array([[tree.rounds[0] - 0.5, line[0]]])]
        for index in range(1, len(line)):
            x = tree.rounds[index] - _BEND + _BEND * bend
            y = line[index - 1] + (line[index] - line[index - 1]) * ease
            path.append(np.column_stack([x, y]))
        path.append(np.array([[tree.rounds[-1] + 0.4, line[-1]]]))
        paths.append(np.concatenate(path))
    axes.add_collection(LineCollection(paths, colors=colours, linewidths=1.3, capstyle="round"))


def _nodes(axes: Axes, tree: ClusterTree) -> None:
    """Draw a dot where two neighbours part."""
    heights = tree.heights
    for index in range(1, len(tree.rounds)):
        before, after = tree.labels[index - 1], tree.labels[index]
        for upper, lower in pairwise(tree.order):
            if before[upper] == before[lower] and after[upper] != after[lower]:
                at = heights[index - 1][[upper, lower]].mean()
                x = tree.rounds[index] - _BEND
                axes.plot(x, at, "o", markersize=3, color="#222222", zorder=3, gid="split")


def _frame(axes: Axes, tree: ClusterTree, clients: Sequence[str]) -> None:
    count = len(tree.order)
    axes.set_xlim(tree.rounds[0] - 0.5, tree.rounds[-1] + 0.45)
    axes.set_ylim(-0.7, count - 0.3)
    axes.set_xlabel("round (a dot marks a split)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=14, min_n_ticks=1))
    axes.spines[["left", "right"]].set_visible(False)
    axes.yaxis.tick_right()
    axes.set_yticks(*_names(tree, clients))
    axes.tick_params(axis="y", length=0, pad=1, labelsize=6)
    axes.set_ylabel("clients")
    axes.yaxis.set_label_position("right")
    changes = tree.changes
    axes.vlines(
        [tree.rounds[index] for index in changes[1:]], -0.7, count - 0.3, colors="#ededed", zorder=0
    )
    named = _spaced(changes, tree.rounds)
    top = axes.secondary_xaxis("top")
    top.set_xticks([tree.rounds[p] for p in named], [str(tree.counts[p]) for p in named])
    top.set_xlabel("number of clusters", color=GREY)
    top.tick_params(length=0, colors=GREY)
    top.spines["top"].set_visible(False)


def _names(tree: ClusterTree, clients: Sequence[str]) -> tuple[list[float], list[str]]:
    """Return the height of each final cluster, and its clients."""
    if len(tree.order) > _NAMED:
        return [], []
    final, heights = tree.labels[-1], tree.heights[-1]
    members = [np.flatnonzero(final == label) for label in np.unique(final)]
    names = [
        textwrap.fill(", ".join(clients[int(place)] for place in some), 16) for some in members
    ]
    return [float(heights[some].mean()) for some in members], names


def _spaced(indices: list[int], rounds: IntArray) -> list[int]:
    """Return as many of some indices of rounds as can be labelled side by side."""
    room = (rounds[-1] - rounds[0]) / 30
    chosen = indices[:1]
    for index in indices[1:]:
        if rounds[index] - rounds[chosen[-1]] >= room:
            chosen.append(index)
    return chosen
