"""Clusters of clients over the rounds, as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.clusters import adjusted_rand
from comity.core.preferences import shared_groups
from comity.core.typing import FloatArray, IntArray
from comity.report.series.curves import preferences_of
from comity.runs.directory import Run
from comity.runs.schema import HistoryEntry

_TIGHT = 0.45  # how near the lines of a cluster's clients run together


@dataclass(frozen=True)
class ClusterTree:
    """Cluster numbers by round and client.

    Lines in the order of the clients cross only where clusters join.
    """

    rounds: IntArray
    labels: IntArray
    """(rounds x clients): the smallest client of the cluster that a client is in."""
    order: IntArray

    @property
    def heights(self) -> FloatArray:
        """(rounds x clients): the height of a client's line, near to those of its cluster."""
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
        """The number of clusters in each round."""
        return [len(np.unique(labels)) for labels in self.labels]

    @property
    def changes(self) -> list[int]:
        """Places of the first round and of rounds in which clusters split or joined."""
        changed = (np.diff(self.labels, axis=0) != 0).any(axis=1)
        return [0, *(np.flatnonzero(changed) + 1).tolist()]


def cluster_tree(history: Sequence[HistoryEntry], weights: FloatArray) -> ClusterTree | None:
    """Return the tree of the clusters in a history; None where there are none.

    Args:
        history: The entries of a run.
        weights: Each client's weight on the first objective, by whose means clusters are ordered.
    """
    rounds = [(e["round"], e["clusters"]) for e in history if e["clusters"] is not None]
    if len(rounds) > 1 and rounds[-1][0] == history[-1]["round"]:
        rounds = rounds[:-1]  # the final delivery forms no new clusters
    if not rounds:
        return None
    labels = np.zeros((len(rounds), len(weights)), dtype=np.int64)
    for line, (_, clusters) in zip(labels, rounds, strict=True):
        for members in clusters:
            line[members] = min(members)
    means = np.array([[weights[line == label].mean() for label in line] for line in labels])
    keys = [key for pair in zip(means, labels, strict=True) for key in pair]
    # the first round decides first, then each later one inside it: no lines cross at splits
    order = np.lexsort([np.arange(len(weights)), weights, *keys[::-1]])
    numbers = np.array([number for number, _ in rounds], dtype=np.int64)
    return ClusterTree(numbers, labels, np.asarray(order))


def agreement(run: Run) -> dict[int, float]:
    """Return the adjusted Rand index against groups of equal preferences.

    By round, where clusters change; empty without clusters or without groups.
    """
    preferences = preferences_of(run)
    tree, groups = cluster_tree(run.history, preferences[:, 0]), shared_groups(preferences)
    if tree is None or groups is None:
        return {}
    return {int(tree.rounds[i]): adjusted_rand(tree.labels[i], groups) for i in tree.changes}
