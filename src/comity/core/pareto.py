"""Fronts: non-dominated objective vectors and their measures. Everything is maximised.

Dominance, hypervolume and IGD come from moocore; what it lacks is a few lines here.
"""

from __future__ import annotations

from collections.abc import Sequence

import moocore
import numpy as np

from comity.core.preferences import equidistant
from comity.core.typing import BoolArray, FloatArray

UTILITY_WEIGHTS = 100


def nondominated(vectors: FloatArray) -> BoolArray:
    """Which vectors no other one dominates; of equal ones (to 1e-6) only the first."""
    points = np.round(np.atleast_2d(vectors), 6)
    best = moocore.is_nondominated(points, maximise=True, keep_weakly=True)
    _, first = np.unique(points, axis=0, return_index=True)
    return np.asarray(best & np.isin(np.arange(len(points)), first))


def above(vectors: FloatArray, reference: Sequence[float]) -> BoolArray:
    """Which vectors count for a hypervolume: better than the reference point in everything."""
    return np.asarray((np.atleast_2d(vectors) > np.asarray(reference)).all(axis=1))


def front(vectors: FloatArray) -> FloatArray:
    """The non-dominated vectors, each once, sorted.

    Rounded to 1e-6 first: returns are sums of float32 rewards, and 8.2 must equal 8.2.
    """
    points = np.unique(np.round(np.atleast_2d(vectors), 6), axis=0)
    if not len(points):
        return np.asarray(points)
    return np.asarray(points[moocore.is_nondominated(points, maximise=True)])


def hypervolume(vectors: FloatArray, reference: Sequence[float]) -> float:
    """Volume between the reference point and the front; points not above it count nothing."""
    if not len(vectors):
        return 0.0
    return float(moocore.hypervolume(front(vectors), ref=np.asarray(reference), maximise=True))


def reach(sets: FloatArray, reference: Sequence[float]) -> FloatArray:
    """The hypervolume of each of several sets (sets x vectors x objectives).

    Vectors with something undefined count nothing.
    """
    known = [vectors[np.isfinite(vectors).all(axis=1)] for vectors in sets]
    return np.array([hypervolume(vectors, reference) for vectors in known])


def sparsity(vectors: FloatArray) -> float:
    """Mean squared gap between neighbours, objective by objective (Xu et al., 2020)."""
    points = front(vectors)
    if len(points) < 2:
        return 0.0
    return float((np.diff(np.sort(points, axis=0), axis=0) ** 2).sum() / (len(points) - 1))


def igd(vectors: FloatArray, target: FloatArray) -> float:
    """Inverted generational distance: mean distance from a target point to the nearest of ours.

    Not a number where there is nothing to measure from, or to.
    """
    if not len(vectors) or not len(target):
        return float("nan")
    return float(moocore.igd(front(vectors), ref=np.asarray(target), maximise=True))


def cardinality(vectors: FloatArray) -> int:
    """How many different non-dominated vectors there are."""
    return len(front(vectors))


def expected_utility(vectors: FloatArray, weights: FloatArray | None = None) -> float:
    """Mean over evenly spread preferences of the best scalarised value in the set; 0 of none."""
    points = front(vectors)
    if not len(points):
        return 0.0
    if weights is None:
        weights = equidistant(UTILITY_WEIGHTS, points.shape[1])
    return float((weights @ points.T).max(axis=1).mean())


def set_measures(
    vectors: FloatArray, reference: Sequence[float], target: FloatArray | None
) -> dict[str, float]:
    """The measures of a set of vectors, whoever they belong to."""
    values = {
        "hypervolume": hypervolume(vectors, reference),
        "sparsity": sparsity(vectors),
        "cardinality": float(cardinality(vectors)),
        "expected_utility": expected_utility(vectors),
    }
    if target is not None:
        values["igd"] = igd(vectors, target)
    return values


def measures(
    vectors: FloatArray,
    preferences: FloatArray,
    reference: Sequence[float],
    target: FloatArray | None,
    optimum: FloatArray | None,
) -> dict[str, float]:
    """All measures of a federation: one objective vector and one preference a client."""
    scalarised = (vectors * preferences).sum(axis=1)
    values = {
        "mean_scalarised": float(scalarised.mean()),
        **set_measures(vectors, reference, target),
    }
    if optimum is not None:
        values["mean_regret"] = float((optimum - scalarised).mean())
    return values
