"""Nearest-neighbour mixing (Allouah et al., 2023): each update becomes a mean of its nearest."""

from __future__ import annotations

import numpy as np

from comity.algorithms.base import Round
from comity.algorithms.wrappers.base import wrapper
from comity.algorithms.wrappers.robust import Robust, outvoted, update_gram
from comity.core.mixing import squared_distances
from comity.core.typing import FloatArray
from comity.settings import setting


@wrapper(
    "nearest-neighbour-mixing",
    title="Nearest-neighbour mixing",
    paper="Allouah et al., 2023",
    place="global model",
    method="mean of the nearest updates in place of each, before the host's rule",
)
class NearestNeighbourMixing(Robust):
    """Δ'_i = mean of the n − f updates nearest to Δ_i, itself among them; f = ⌊share · n⌋.

    A rule before rules: meant to be followed by one that withstands outliers, as in
    ``nearest-neighbour-mixing,geometric-median``. With a personal host each client's update
    becomes a mean of those most like its own.
    """

    share: float = setting(0.3, "share of bad members to withstand", above=0, below=0.5)

    def combine(self, round: Round) -> FloatArray | None:
        squares = squared_distances(update_gram(round))
        count = len(squares)
        nearest = count - outvoted(self.share, count)
        if nearest == count:
            return None
        np.fill_diagonal(squares, -1.0)  # itself first, even among equals
        order = np.argsort(squares, axis=1, kind="stable")[:, :nearest]
        matrix = np.zeros((count, count))
        np.put_along_axis(matrix, order, 1.0 / nearest, axis=1)
        return matrix
