"""Rates of convergence, fitted to a series of values, one per round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from comity.core.typing import FloatArray

_FACTORS = np.linspace(0.01, 0.99, 99)
FEWEST_ROUNDS = 4
"""A curve of three numbers goes through any three values."""


class Rate(NamedTuple):
    """The curve limit − gap × factor^round, which is linear convergence, nearest to a series."""

    limit: float
    gap: float
    factor: float
    explained: float
    """Share of the series' variance that the curve explains."""
    explained_by_inverse: float
    """The same for limit − gap / round, which is slower than linear."""

    def at(self, rounds: FloatArray) -> FloatArray:
        """Return the curve's values after some rounds."""
        return np.asarray(self.limit - self.gap * self.factor**rounds)


def fit_rate(values: Sequence[float]) -> Rate | None:
    """Return the rate of a series by least squares; None for too few or constant values.

    Args:
        values: The value after each round, from the first.
    """
    series, rounds = np.asarray(values, dtype=float), np.arange(1, len(values) + 1)
    variance = float(((series - series.mean()) ** 2).sum()) if len(values) else 0.0
    if len(values) < FEWEST_ROUNDS or variance < 1e-18:
        return None
    fits = [(*_fitted(factor**rounds, series), factor) for factor in _FACTORS]
    error, limit, gap, factor = min(fits)
    inverse, _, _ = _fitted(1 / rounds, series)
    return Rate(limit, gap, float(factor), 1 - error / variance, 1 - inverse / variance)


def _fitted(decay: FloatArray, series: FloatArray) -> tuple[float, float, float]:
    """Return the squared error, limit and gap of the nearest limit − gap × decay."""
    design = np.stack([np.ones_like(decay), -decay], axis=1)
    (limit, gap), *_ = np.linalg.lstsq(design, series, rcond=None)
    error = float(((design @ [limit, gap] - series) ** 2).sum())
    return error, float(limit), float(gap)
