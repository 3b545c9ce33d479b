"""Non-dominated objective vectors and their measures; all objectives are maximised.

Dominance, hypervolume and IGD come from moocore. In all functions ``vectors`` has one objective
vector per row and ``reference`` is the reference point of the hypervolume.
"""

from __future__ import annotations

from collections.abc import Sequence

import moocore
import numpy as np

from comity.core.preferences import equidistant
from comity.core.typing import BoolArray, FloatArray, IntArray

UTILITY_WEIGHTS = 100
"""Number of evenly spread preferences in the expected utility."""


def nondominated(vectors: FloatArray) -> BoolArray:
    """Return a mask of the vectors that no other dominates; of equal ones (to 1e-6) the first."""
    points = np.round(np.atleast_2d(vectors), 6)
    best = moocore.is_nondominated(points, maximise=True, keep_weakly=True)
    _, first = np.unique(points, axis=0, return_index=True)
    return np.asarray(best & np.isin(np.arange(len(points)), first))


def above(vectors: FloatArray, reference: Sequence[float]) -> BoolArray:
    """Return a mask of the vectors that exceed the reference point in every objective."""
    return np.asarray((np.atleast_2d(vectors) > np.asarray(reference)).all(axis=1))


def front(vectors: FloatArray) -> FloatArray:
    """Return the non-dominated vectors, each once, sorted.

    Vectors are rounded to 1e-6 first: returns are sums of float32 rewards, and 8.2 must equal 8.2.
    """
    points = np.unique(np.round(np.atleast_2d(vectors), 6), axis=0)
    if not len(points):
        return np.asarray(points)
    return np.asarray(points[moocore.is_nondominated(points, maximise=True)])


def ranks(vectors: FloatArray) -> IntArray:
    """Return how often the non-dominated vectors must be removed before each vector is one (0: is).

    Deb et al. (2002). Equal vectors (to 1e-6) have the same rank.
    """
    if not len(vectors):
        return np.zeros(0, dtype=np.int64)
    points = np.round(np.atleast_2d(vectors), 6)
    return np.asarray(moocore.pareto_rank(points, maximise=True), dtype=np.int64)


def ranked_front(vectors: FloatArray, rank: int) -> FloatArray:
    """Return the front of what is left after removing the non-dominated vectors ``rank`` times.

    Few outliers can make up a front; those of the next ranks show what lies behind them. Empty if
    nothing is left.
    """
    points = np.asarray(vectors, dtype=np.float64)
    return front(points[ranks(points) == rank]) if len(points) else points


def hypervolume(vectors: FloatArray, reference: Sequence[float]) -> float:
    """Return the volume between the reference point and the front.

    Vectors that are not above the reference point in every objective add nothing.
    """
    if not len(vectors):
        return 0.0
    return float(moocore.hypervolume(front(vectors), ref=np.asarray(reference), maximise=True))


def reach(sets: FloatArray, reference: Sequence[float]) -> FloatArray:
    """Return the hypervolume of each of several sets (sets x vectors x objectives).

    Vectors with an undefined (non-finite) entry add nothing.
    """
    finite = [vectors[np.isfinite(vectors).all(axis=1)] for vectors in sets]
    return np.array([hypervolume(vectors, reference) for vectors in finite])


def sparsity(vectors: FloatArray) -> float:
    """Return the mean squared gap between neighbours on the front, summed over objectives.

    As in Xu et al. (2020); 0 for fewer than two points.
    """
    points = front(vectors)
    if len(points) < 2:
        return 0.0
    return float((np.diff(np.sort(points, axis=0), axis=0) ** 2).sum() / (len(points) - 1))


def igd(vectors: FloatArray, target: FloatArray) -> float:
    """Return the inverted generational distance: mean distance from a target point to the front.

    NaN if there are no vectors or no target points.
    """
    if not len(vectors) or not len(target):
        return float("nan")
    return float(moocore.igd(front(vectors), ref=np.asarray(target), maximise=True))


def cardinality(vectors: FloatArray) -> int:
    """Return the number of different non-dominated vectors."""
    return len(front(vectors))


def expected_utility(vectors: FloatArray, weights: FloatArray | None = None) -> float:
    """Return the mean over preferences of the best scalarised value; 0 if there are no vectors.

    Args:
        vectors: One objective vector per row.
        weights: Preferences x objectives; evenly spread ones by default.
    """
    points = front(vectors)
    if not len(points):
        return 0.0
    if weights is None:
        weights = equidistant(UTILITY_WEIGHTS, points.shape[1])
    return float((weights @ points.T).max(axis=1).mean())


def set_measures(
    vectors: FloatArray, reference: Sequence[float], target: FloatArray | None
) -> dict[str, float]:
    """Return the measures of a set of vectors, by name.

    Args:
        vectors: One objective vector per row.
        reference: Reference point of the hypervolume.
        target: Known front or reference set from which IGD is measured; None: no IGD.
    """
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
    """Return all measures of a federation, by name.

    Args:
        vectors: One objective vector per client.
        preferences: One preference per client.
        reference: Reference point of the hypervolume.
        target: Known front or reference set from which IGD is measured; None: no IGD.
        optimum: Best possible scalarised value per client; None: no regret.
    """
    scalarised = (vectors * preferences).sum(axis=1)
    values = {
        "mean_scalarised": float(scalarised.mean()),
        **set_measures(vectors, reference, target),
    }
    if optimum is not None:
        values["mean_regret"] = float((optimum - scalarised).mean())
    return values
