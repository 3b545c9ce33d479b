"""Measures of what one model reaches at many preferences; all objectives are maximised.

In all functions ``vectors`` has one objective vector per preference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comity.core.intervals import ranks_of
from comity.core.pareto import front
from comity.core.typing import BoolArray, FloatArray


def undominated(vectors: FloatArray, others: FloatArray) -> BoolArray:
    """Return a mask of the vectors that none of the others dominates.

    Args:
        vectors: One objective vector per row.
        others: Vectors of other models, one per row.
    """
    mine, theirs = np.round(vectors, 6)[:, None], np.round(others, 6)[None]
    dominated = np.all(theirs >= mine, axis=2) & np.any(theirs > mine, axis=2)
    return np.asarray(~np.any(dominated, axis=1))


def dominated_share(vectors: FloatArray) -> float:
    """Return the share of the vectors that another of them dominates."""
    return float(1.0 - undominated(vectors, vectors).mean())


def regrets(preferences: FloatArray, vectors: FloatArray, best: FloatArray) -> FloatArray:
    """Return what each preference w misses, max_v w·v − w·vector, to 1e-6.

    Args:
        preferences: One preference per row.
        vectors: The outcome at each (…, preferences, objectives).
        best: The best vectors v that are known, one per row.
    """
    reached = (vectors * preferences).sum(axis=-1)
    missed = (preferences @ best.T).max(axis=1) - reached
    return np.asarray(missed.round(6) + 0.0)  # no negative zero


def width(vectors: FloatArray) -> float:
    """Return the distance between the two ends of the front: the diagonal of the box around it."""
    return float(np.linalg.norm(np.ptp(front(vectors), axis=0)))


def distance(vectors: FloatArray, ideal: Sequence[float]) -> float:
    """Return the distance from the ideal point to the nearest vector.

    Args:
        vectors: One objective vector per row.
        ideal: The best that is conceivable in each objective.
    """
    return float(np.linalg.norm(vectors - np.asarray(ideal), axis=1).min())


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Return Spearman's rank correlation of two series; 0 where one of them is constant."""
    ranks = [ranks_of(series) - (len(series) + 1) / 2 for series in (first, second)]
    scale = float(np.linalg.norm(ranks[0]) * np.linalg.norm(ranks[1]))
    return float(ranks[0] @ ranks[1]) / scale if scale else 0.0


def monotony(preferences: FloatArray, vectors: FloatArray) -> float:
    """Return how steadily an objective rises with its importance: 1 always, −1 always falls.

    It is the mean over objectives of the rank correlation of importance and outcome.

    Args:
        preferences: One preference per row.
        vectors: The outcome at each.
    """
    pairs = zip(preferences.T, vectors.T, strict=True)
    return float(np.mean([rank_correlation(weight, value) for weight, value in pairs]))


def distinct(vectors: FloatArray) -> float:
    """Return the number of different vectors per preference: 1 where no two are equal."""
    return len(np.unique(np.round(vectors, 6), axis=0)) / len(vectors)
