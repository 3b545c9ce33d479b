"""Rows that the server of a search holds: taken from what clients would train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from comity.core.typing import IntArray
from comity.datasets.partition import ClientRows


def withhold(
    clients: Sequence[ClientRows], strata: IntArray, share: float, draw: np.random.Generator
) -> tuple[list[ClientRows], IntArray]:
    """Return the clients without a share of their training rows, and those rows, sorted.

    The share is taken of each stratum; what rounding leaves at one client is taken from the next.
    Every client keeps a training row of each stratum that it has. Its other rows stay as they are.

    Args:
        clients: Rows of each client.
        strata: Stratum of every row of the data.
        share: Share of the training rows to take, below 1.
        draw: Random numbers that choose the rows.
    """
    kinds, index = np.unique(strata, return_inverse=True)
    owed = np.zeros(len(kinds))
    rest, taken = [], []
    for client in clients:
        rows = draw.permutation(client.train)
        leaves = np.zeros(len(rows), dtype=bool)
        for kind in np.unique(index[rows]):
            places = np.flatnonzero(index[rows] == kind)
            owed[kind] += share * len(places)
            count = min(int(owed[kind] + 1e-9), len(places) - 1)
            owed[kind] -= count
            leaves[places[:count]] = True
        rest.append(replace(client, train=np.sort(rows[~leaves])))
        taken.append(rows[leaves])
    return rest, np.sort(np.concatenate(taken))
