"""Weights where the front may still have its largest gap: the adaptive generator.

The best scalarised value V(w) is convex in the weight. Between two solved neighbours, V is thus at
least what the known vectors give and at most the chord: the difference, largest where the two
neighbours' vectors are worth the same, is what a model in between could still gain (the optimistic
bound of linear support; Roijers et al., 2015). Where no bound is open any more, the distance
between neighbouring weights that lead to different vectors is halved: training need not reach what
the bound assumes, because agents discount and returns do not.
"""

from __future__ import annotations

import numpy as np

from comity.core.preferences import equidistant
from comity.core.typing import FloatArray, IntArray
from comity.searches.candidates import Findings, Generator, generator
from comity.settings import setting


@generator("gap", title="Weights where the front may have its largest gap")
class Gap(Generator):
    """Generator by the largest possible gain between neighbouring weights."""

    tolerance: float = setting(
        1e-3,
        "possible gain, as share of the largest value known, below which none is seen",
        at_least=0,
    )

    def propose(
        self, count: int, objectives: int, findings: Findings, draw: np.random.Generator
    ) -> FloatArray:
        if not len(findings.weights):
            return equidistant(count, objectives)
        nodes, first = np.unique(findings.weights, axis=0, return_index=True)
        edges = neighbours(nodes)
        near, far = nodes[edges[:, 0]], nodes[edges[:, 1]]
        best = findings.front[(nodes @ findings.front.T).argmax(axis=1)]
        here, there = best[edges[:, 0]], best[edges[:, 1]]
        place = crossing(near, far, here, there)
        middle = near + place[:, None] * (far - near)
        known = (middle @ findings.front.T).max(axis=1)
        chord = (1 - place) * (near * here).sum(axis=1) + place * (far * there).sum(axis=1)
        least = self.tolerance * np.abs(findings.front).max()
        gain = np.where(chord - known > least, chord - known, 0.0)
        trained = findings.normalised(findings.vectors[first])
        apart = np.linalg.norm(trained[edges[:, 0]] - trained[edges[:, 1]], axis=1)
        length = np.linalg.norm(far - near, axis=1)
        # open bounds first; half of the places left go between weights that led far apart, and
        # half anywhere: a failed training carries no information about its weight
        bounds = np.argsort(-gain, kind="stable")[: min(count, int((gain > 0).sum()))]
        halved = np.argsort(-apart * length, kind="stable")
        halved = halved[~np.isin(halved, bounds)][: (count - len(bounds) + 1) // 2]
        chosen = np.concatenate([middle[bounds], (near[halved] + far[halved]) / 2])
        rest = draw.dirichlet(np.ones(objectives), count - len(chosen))
        return np.concatenate([chosen, rest])


def neighbours(weights: FloatArray) -> IntArray:
    """Return pairs of rows that are neighbours on the simplex: edges of the triangulation."""
    count, objectives = weights.shape
    if objectives == 2 or count <= objectives:
        order = np.lexsort(weights.T[::-1])
        return np.stack([order[:-1], order[1:]], axis=1)
    # joggled input: weights on the rim of the simplex lie on lines
    from scipy.spatial import Delaunay  # slow to import, and few runs need it

    cells = Delaunay(weights[:, :-1], qhull_options="QJ Pp").simplices
    pairs = [cells[:, [i, j]] for i in range(objectives) for j in range(i)]
    return np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0).astype(np.int64)


def crossing(near: FloatArray, far: FloatArray, here: FloatArray, there: FloatArray) -> FloatArray:
    """Return the place on each edge (0 to 1) where the vectors of its two ends are worth the same.

    Args:
        near: Weights at one end (edges x objectives).
        far: Weights at the other end.
        here: Vectors of the weights at the near end.
        there: Vectors of the weights at the far end.
    """
    lead = (near * (here - there)).sum(axis=1)
    lag = (far * (there - here)).sum(axis=1)
    total = lead + lag
    return np.asarray(np.clip(lead / np.where(total > 0, total, 1.0), 0.0, 1.0))
