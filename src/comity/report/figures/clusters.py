"""Which clients stayed together, and when they parted."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comity.core.typing import FloatArray, IntArray
from comity.report.figures.style import GREY, PALETTE, WEIGHTS, canvas, styled
from comity.report.measures import single
from comity.report.series.curves import preferences_of
from comity.runs.directory import Run

_NAMED = 60  # more clients than this have no room for their names
_BEND = 0.7  # rounds that a split takes in the picture
_TIGHT = 0.45  # how near the clients of a cluster run together


@dataclass(frozen=True)
class ClusterTree:
    """Cluster numbers by round and client, with clients in an order that crosses no lines."""

    rounds: IntArray
    labels: IntArray
    """(rounds x clients): the smallest client of the cluster that a client is in."""
    order: IntArray

    @property
    def heights(self) -> FloatArray:
        """(rounds x clients): where a client's line runs, near to those of its cluster."""
        slot = np.empty(len(self.order))
        slot[self.order] = np.arange(len(self.order))
        heights = np.empty(self.labels.shape)
        for line, labels in zip(heights, self.labels, strict=True):
            for label in np.unique(labels):
                members = labels == label
                centre = slot[members].mean()
                line[members] = centre + (slot[members] - centre) * _TIGHT
        return heights

    @property
    def counts(self) -> list[int]:
        """How many clusters there are in each round."""
        return [len(np.unique(labels)) for labels in self.labels]


@styled
def clusters(run: Run) -> Figure | None:
    """One line a client: together while in one cluster, branching where it splits.

    None for algorithms that have no clusters.
    """
    weights = preferences_of(run)[:, 0]
    tree = grow(run.history, weights)
    if tree is None:
        return None
    count = len(weights)
    figure = canvas(6.2, min(max(1.6, 0.145 * count + 0.9), 9.0))
    axes = figure.subplots()
    final, alone = tree.labels[-1], single(run.results)
    means = [weights[final == label].mean() for label in final]
    _lines(axes, tree, [PALETTE[0] if alone else WEIGHTS(mean) for mean in means])
    _nodes(axes, tree)
    _frame(axes, tree, weights)
    if not alone:
        colours = ScalarMappable(Normalize(0, 1), WEIGHTS)
        bar = figure.colorbar(colours, ax=axes, aspect=30, pad=0.02)
        first = run.configuration.get_problem().objectives[0].name
        bar.set_label(f"mean weight on {first} in the final cluster")
        bar.outline.set_visible(False)
    return figure


def grow(history: list[dict[str, Any]], weights: FloatArray) -> ClusterTree | None:
    """The tree that a history tells; clusters are ordered by their mean weight."""
    told = [entry for entry in history if entry["clusters"] is not None]
    if len(told) > 1 and told[-1]["round"] == history[-1]["round"]:
        told = told[:-1]  # the final delivery clusters nobody anew
    if not told:
        return None
    labels = np.zeros((len(told), len(weights)), dtype=np.int64)
    for line, entry in zip(labels, told, strict=True):
        for members in entry["clusters"]:
            line[members] = min(members)
    means = np.array([[weights[line == label].mean() for label in line] for line in labels])
    keys = [key for pair in zip(means, labels, strict=True) for key in pair]
    # the first round decides first, then each later one inside it: no lines cross
    order = np.lexsort([np.arange(len(weights)), weights, *keys[::-1]])
    rounds = np.array([entry["round"] for entry in told], dtype=np.int64)
    return ClusterTree(rounds, labels, np.asarray(order))


def _lines(axes: Axes, tree: ClusterTree, colours: Sequence[Any]) -> None:
    heights, bend = tree.heights, np.linspace(0.0, 1.0, 12)
    ease = bend**2 * (3 - 2 * bend)
    paths = []
    for client in range(len(colours)):
        line = heights[:, client]
        path = [np.array([[tree.rounds[0] - 0.5, line[0]]])]
        for place in range(1, len(line)):
            x = tree.rounds[place] - _BEND + _BEND * bend
            y = line[place - 1] + (line[place] - line[place - 1]) * ease
            path.append(np.column_stack([x, y]))
        path.append(np.array([[tree.rounds[-1] + 0.4, line[-1]]]))
        paths.append(np.concatenate(path))
    axes.add_collection(LineCollection(paths, colors=colours, linewidths=1.3, capstyle="round"))


def _nodes(axes: Axes, tree: ClusterTree) -> None:
    """A dot where two neighbours part."""
    heights = tree.heights
    for place in range(1, len(tree.rounds)):
        before, after = tree.labels[place - 1], tree.labels[place]
        for upper, lower in pairwise(tree.order):
            if before[upper] == before[lower] and after[upper] != after[lower]:
                at = heights[place - 1][[upper, lower]].mean()
                x = tree.rounds[place] - _BEND
                axes.plot(x, at, "o", markersize=3, color="#222222", zorder=3, gid="split")


def _frame(axes: Axes, tree: ClusterTree, weights: FloatArray) -> None:
    count = len(weights)
    axes.set_xlim(tree.rounds[0] - 0.5, tree.rounds[-1] + 0.45)
    axes.set_ylim(-0.7, count - 0.3)
    axes.set_xlabel("round (a dot marks a split)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=14, min_n_ticks=1))
    axes.spines[["left", "right"]].set_visible(False)
    axes.yaxis.tick_right()
    axes.set_yticks(*_names(tree))
    axes.tick_params(axis="y", length=0, pad=1, labelsize=6)
    axes.set_ylabel("clients")
    axes.yaxis.set_label_position("right")
    changes = [0, *(np.flatnonzero(np.diff(tree.counts)) + 1).tolist()]
    axes.vlines(
        [tree.rounds[place] for place in changes[1:]], -0.7, count - 0.3, colors="#ededed", zorder=0
    )
    named = _spaced(changes, tree.rounds)
    top = axes.secondary_xaxis("top")
    top.set_xticks([tree.rounds[p] for p in named], [str(tree.counts[p]) for p in named])
    top.set_xlabel("number of clusters", color=GREY)
    top.tick_params(length=0, colors=GREY)
    top.spines["top"].set_visible(False)


def _names(tree: ClusterTree) -> tuple[list[float], list[str]]:
    """Where each final cluster ends, and its clients."""
    if len(tree.order) > _NAMED:
        return [], []
    final, heights = tree.labels[-1], tree.heights[-1]
    members = [np.flatnonzero(final == label) for label in np.unique(final)]
    names = [textwrap.fill(", ".join(map(str, clients)), 16) for clients in members]
    return [float(heights[clients].mean()) for clients in members], names


def _spaced(places: list[int], rounds: IntArray) -> list[int]:
    """As many of some places as can be labelled side by side."""
    room = (rounds[-1] - rounds[0]) / 30
    chosen = places[:1]
    for place in places[1:]:
        if rounds[place] - rounds[chosen[-1]] >= room:
            chosen.append(place)
    return chosen
