"""Scales of numbers that no client knows alone: mean and spread over the rows of all clients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from comity.core.typing import Float32Array, FloatArray

_LEAST_SPREAD = 1e-6


def scale_statistics(inputs: Float32Array) -> FloatArray:
    """Return count, sum and sum of squares of each column of numbers (3 x columns).

    Sums are rounded once, so that they do not depend on the order of the rows.
    """
    columns = inputs.astype(np.float64).T
    sums = [[math.fsum(column), math.fsum(column * column)] for column in columns]
    return np.array([[float(len(inputs)), *pair] for pair in sums]).reshape(-1, 3).T


def federated_scales(statistics: Sequence[FloatArray]) -> FloatArray:
    """Return mean and spread of each column (columns x 2) over the rows of all clients.

    Args:
        statistics: What `scale_statistics` returned for each client, in the order of the clients.
    """
    count, total, squares = (
        np.array([math.fsum(column) for column in rows.T])
        for rows in np.stack(statistics).swapaxes(0, 1)
    )
    mean = total / count
    variance = np.maximum(squares - count * mean**2, 0.0) / np.maximum(count - 1, 1)
    return np.stack([mean, np.maximum(np.sqrt(variance), _LEAST_SPREAD)], axis=1)
