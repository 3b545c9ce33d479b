"""Multi-Krum (Blanchard et al., 2017): a mean of those who are near to most others."""

from __future__ import annotations

import numpy as np

from comity.algorithms.wrappers.base import wrapper
from comity.algorithms.wrappers.robust import ROUNDING, RobustRow, outvoted
from comity.core.mixing import squared_distances
from comity.core.typing import FloatArray
from comity.settings import setting


@wrapper(
    "multi-krum",
    title="Multi-Krum",
    paper="Blanchard et al., 2017",
    place="global model",
    method="mean of the n − f givers that are nearest to others",
)
class MultiKrum(RobustRow):
    """Keep the n − f givers of least score; the host's weights of the others become zero.

    score_i = sum of ‖x_i − x_j‖² over the n − f − 2 givers j nearest to i, and f = ⌊share · n⌋. In
    a personal row the receiver's own model is the measure: the n − f givers nearest to it are kept.
    Givers whose score is that of the last one kept are kept as well: two who are each other's
    nearest cannot be told apart. Rows of too few givers, n < f + 3, stay as they are.
    """

    share: float = setting(0.3, "share of bad members to withstand", above=0, below=0.5)

    def row(self, gram: FloatArray, weights: FloatArray, own: int | None) -> FloatArray:
        squares = squared_distances(gram)
        count = len(squares)
        bad = outvoted(self.share, count)
        if count - bad - 2 < 1:
            return weights
        if own is None:
            np.fill_diagonal(squares, np.inf)
            scores = np.sort(squares, axis=1)[:, : count - bad - 2].sum(axis=1)
        else:
            scores = squares[own]
            scores[own] = -1.0
        last = np.sort(scores)[count - bad - 1]
        chosen = np.where(scores <= last * (1 + ROUNDING), weights, 0.0)
        return np.asarray(chosen / chosen.sum())
