"""Means and spreads over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from comity.core.typing import FloatArray
from comity.runs.schema import Spread


def spread_of(values: Iterable[Mapping[str, float]]) -> dict[str, Spread]:
    """Return mean and population standard deviation of each measure.

    Args:
        values: The measures of one run each. A run that lacks a measure, or has one that is not
            finite, does not count for it.
    """
    rows = list(values)
    names = dict.fromkeys(name for row in rows for name in row)
    every = {name: np.array([row[name] for row in rows if name in row]) for name in names}
    columns = {name: column[np.isfinite(column)] for name, column in every.items()}
    return {name: spread(column) for name, column in columns.items() if len(column)}


def spread(values: Sequence[float] | FloatArray) -> Spread:
    """Return mean and population standard deviation, of one value the mean alone.

    Args:
        values: One value per seed; at least one.
    """
    std = float(np.std(values)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "std": std}
