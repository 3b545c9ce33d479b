"""Measures of a comparison as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from comity.core.typing import FloatArray
from comity.runs.schema import ComparisonResults, ComparisonRow

Baseline = Literal["optimum", "trivial"]


def measure_arrays(
    rows: Sequence[ComparisonRow], name: str, algorithms: Sequence[str], kinds: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of a measure (algorithms x distributions).

    Args:
        rows: The rows of a comparison.
        name: The measure; its mean is NaN where a row lacks it.
        algorithms: The entries, in the order of the first axis.
        kinds: The preference distributions, in the order of the second axis.
    """
    means = np.full((len(algorithms), len(kinds)), np.nan)
    stds = np.zeros(means.shape)
    for row in rows:
        metric = row["metrics"].get(name)
        if metric is not None and metric["mean"] is not None:
            cell = algorithms.index(row["algorithm"]), kinds.index(row["preferences"])
            means[cell], stds[cell] = metric["mean"], metric.get("std") or 0.0
    return means, stds


def baseline_values(
    comparison: ComparisonResults, baseline: Baseline, name: str
) -> dict[str, float]:
    """Return a baseline's value of a measure by preference distribution.

    If all values agree there is one, under the empty string.
    """
    common = comparison.get(baseline, {})
    values = {row["preferences"]: row.get(baseline, common).get(name) for row in comparison["rows"]}
    known = {kind: float(value) for kind, value in values.items() if value is not None}
    if known and np.ptp(list(known.values())) < 1e-9:
        return {"": next(iter(known.values()))}
    return known
