"""Estimates with intervals of 95 %: shares, their differences, areas under curves."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from comity.core.typing import BoolArray, FloatArray

_Z = 1.959963984540054
"""Quantile of the normal distribution at 97.5 %."""


class Estimate(NamedTuple):
    """A value between the ends of its interval; NaN where something is undefined."""

    value: float
    low: float
    high: float


UNDEFINED = Estimate(math.nan, math.nan, math.nan)
"""No estimate at all."""


def ranks_of(values: FloatArray) -> FloatArray:
    """Return the rank of each value, the smallest 1; equal values share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def share(successes: int, count: int) -> Estimate:
    """Return successes / count with Wilson's interval; undefined without cases.

    The ends are (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n).

    Args:
        successes: Number of cases that count.
        count: Number of all cases n.
    """
    if count == 0:
        return UNDEFINED
    value, square = successes / count, _Z**2 / count
    centre = value + square / 2
    half = _Z * math.sqrt(value * (1 - value) / count + square / (4 * count))
    low, high = ((centre + sign * half) / (1 + square) for sign in (-1, 1))
    # the ends touch 0 and 1 exactly where no or every case counts
    return Estimate(value, 0.0 if successes == 0 else low, 1.0 if successes == count else high)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Return the difference of two independent shares with Newcombe's hybrid score interval.

    Args:
        first: Share to subtract from, with Wilson's interval.
        second: Share to subtract, likewise.
    """
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Estimate(value, value - below, value + above)


def area_under_curve(labels: BoolArray, scores: FloatArray) -> Estimate:
    """Return the area under the ROC curve with DeLong's interval on the scale of logits.

    The value is undefined without cases of both kinds. The interval is undefined with a single
    case of a kind, and where DeLong's variance is zero: a perfect ranking, or equal scores.

    Args:
        labels: Which cases are positive.
        scores: Score of each case; a larger one speaks for positive.
    """
    positive, negative = scores[labels], scores[~labels]
    m, n = len(positive), len(negative)
    if m == 0 or n == 0:
        return UNDEFINED
    ranks = ranks_of(scores)
    above = (ranks[labels] - ranks_of(positive)) / n  # share of negatives below each positive
    below = 1 - (ranks[~labels] - ranks_of(negative)) / m
    area = float(above.mean())
    if m == 1 or n == 1:
        return Estimate(area, math.nan, math.nan)
    variance = float(above.var(ddof=1)) / m + float(below.var(ddof=1)) / n
    spread = area * (1 - area)
    if spread <= 0 or variance <= 1e-18:
        return Estimate(area, math.nan, math.nan)
    half, centre = _Z * math.sqrt(variance) / spread, math.log(area / (1 - area))
    low, high = (float(1 / (1 + np.exp(-(centre + sign * half)))) for sign in (-1, 1))
    return Estimate(area, low, high)
