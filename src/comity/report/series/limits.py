"""Axis limits that show what matters: far points must not squeeze the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comity.core.pareto import above
from comity.core.typing import FloatArray
from comity.report.series.baselines import Baselines

_NEAR = 0.2  # scores are shares: what differs by a fifth still belongs into one picture


def front_limits(
    points: FloatArray, target: FloatArray | None, least: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper limits of all objectives; far points may lie outside.

    Args:
        points: The points to show.
        target: The known front, around which points count as near.
        least: The smallest distance from the front that still counts as near.
    """
    if target is None:
        low, high = points.min(axis=0), points.max(axis=0)
    else:
        low, high = target.min(axis=0), target.max(axis=0)
        reach = np.maximum(high - low, least)
        near = np.clip(points, low - reach, high + reach)
        low, high = np.minimum(low, near.min(axis=0)), np.maximum(high, near.max(axis=0))
    smallest = 0.05 * least if least else np.where(high > low, 0.0, 0.5)
    margin = np.maximum(0.07 * (high - low), smallest)
    return low - margin, high + margin


def limits_with_baselines(
    points: FloatArray, target: FloatArray | None, baselines: Baselines
) -> tuple[FloatArray, FloatArray]:
    """Return limits of all objectives with the baselines; models of no use may lie outside."""
    trivial, strict = baselines.trivial, baselines.strict
    if trivial is None and strict is None and len(points):
        return front_limits(points, target)
    useful = points if strict is None else points[above(points, strict.tolist())]
    shown = points if trivial is None else np.vstack([points, trivial])
    sets = [known for known in (target, useful, points, shown) if known is not None and len(known)]
    if not sets:
        return np.zeros(points.shape[1]), np.ones(points.shape[1])
    low, high = front_limits(shown, sets[0], _NEAR)
    if strict is not None:  # a line is drawn where it does not squeeze the rest
        size = high - low
        near = (strict < low) & (strict > low - 0.4 * size)
        low = np.where(near, strict - 0.03 * size, low)
    return low, high


def value_limits(
    low: FloatArray, high: FloatArray, others: Sequence[FloatArray]
) -> tuple[float, float]:
    """Return the part of the y axis that shows the kept models, and other lines if they are near.

    Freshly mixed or trained models can be worse by orders of magnitude for a while.

    Args:
        low: The lower quartiles of the kept models.
        high: Their upper quartiles.
        others: Other lines.
    """
    known = [line[np.isfinite(line)] for line in (low, high, *others)]
    if not len(known[0]):
        return -1.0, 1.0  # no client ever had a model that could be judged
    top = max(float(line.max()) for line in known if len(line))
    floor = float(np.quantile(known[0], 0.1))
    reach = top - 2.5 * (top - floor)
    bottoms = [float(line.min()) for line in known[2:] if len(line)]
    floor = min([floor, *(bottom for bottom in bottoms if bottom > reach)])
    margin = 0.06 * (top - floor) or 0.5
    return floor - margin, top + margin
