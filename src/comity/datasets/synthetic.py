"""Synthetic people of the fair-learning papers: two Gaussians, and an attribute drawn from them.

The label y is 1 with probability 0.6, the inputs x are Gaussian given y, and the attribute z is 1
with probability N1(x') / (N1(x') + N0(x')), where x' is x turned by 45 degrees and N1, N0 are the
densities of x given y. All of it is known, so the best possible result is known, too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from comity.core.pareto import hypervolume
from comity.core.typing import FloatArray, IntArray
from comity.datasets.columns import read_columns
from comity.datasets.roles import Roles
from comity.datasets.tables import Table, make_table

TRAIN, TEST, SEED = 3_500, 1_500, 123

POSITIVE = 0.6
_MEANS = np.array([[-2.0, -2.0], [2.0, 2.0]])
_SPREADS = np.array([[[10.0, 1.0], [1.0, 3.0]], [[5.0, 1.0], [1.0, 5.0]]])
_TURN = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)

_DRAWS, _RATES = 200_000, 201


def density(points: FloatArray, label: int) -> FloatArray:
    """Return the density of the inputs (rows) given a label."""
    away = points - _MEANS[label]
    spread = _SPREADS[label]
    square = (away @ np.linalg.inv(spread) * away).sum(axis=-1)
    return np.asarray(np.exp(-square / 2) / (2 * np.pi * np.sqrt(np.linalg.det(spread))))


def group_chance(points: FloatArray) -> FloatArray:
    """Return P(z = 1 | x) for points x (rows)."""
    turned = points @ _TURN.T
    one, zero = density(turned, 1), density(turned, 0)
    return np.asarray(one / (one + zero))


def label_chance(points: FloatArray) -> FloatArray:
    """Return P(y = 1 | x) by Bayes' rule; given x, y does not depend on z."""
    one, zero = POSITIVE * density(points, 1), (1 - POSITIVE) * density(points, 0)
    return np.asarray(one / (one + zero))


def draw(count: int, seed: int = SEED) -> tuple[FloatArray, IntArray, IntArray]:
    """Return inputs, attribute values and labels of ``count`` people."""
    rng = np.random.default_rng(seed)
    label = (rng.random(count) < POSITIVE).astype(np.int64)
    roots = np.linalg.cholesky(_SPREADS)[label]
    points = _MEANS[label] + (roots @ rng.standard_normal((count, 2, 1)))[..., 0]
    group = (rng.random(count) < group_chance(points)).astype(np.int64)
    return points, group, label


def synthetic() -> Table:
    """Return the data set of the papers: training rows first, always the same ones."""
    points, group, label = draw(TRAIN + TEST)
    cells = {"x1": points[:, 0], "x2": points[:, 1], "z": group, "y": label}
    columns = read_columns({name: cell.tolist() for name, cell in cells.items()}, "synthetic")
    return make_table("synthetic", columns, Roles("y", ["z"], features=["x1", "x2", "z"]))


@lru_cache(maxsize=1)
def reference_hypervolume() -> float:
    """Return the hypervolume of the exact densities with one threshold per attribute value.

    All pairs of thresholds on P(y = 1 | x) are taken, placed so that the values' shares of yeses
    are evenly spaced; accuracy and D are means over a fixed draw of people.
    """
    points, group, _ = draw(_DRAWS)
    chance, share = label_chance(points), group.mean()
    rates = np.linspace(0, 1, _RATES)
    right = []
    for value in (0, 1):
        order = -np.sort(-chance[group == value])
        # yes to the first n: each of them is right with its chance, all others with the rest of it
        total = np.concatenate([[0.0], np.cumsum(2 * order - 1)]) + (1 - order).sum()
        right.append(total[np.round(rates * len(order)).astype(int)] / len(order))
    zero, one = np.indices((_RATES, _RATES)).reshape(2, -1)
    accuracy = (1 - share) * right[0][zero] + share * right[1][one]
    distance = np.abs(rates[zero] - rates[one]) * max(share, 1 - share)  # the larger |P(yes|z) - P|
    return hypervolume(np.stack([accuracy, 1 - distance], axis=1), (0.0, 0.0))
