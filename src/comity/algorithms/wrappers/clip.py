"""Norm clipping (Sun et al., 2019): no update counts as longer than the median one."""

from __future__ import annotations

import numpy as np

from comity.algorithms.base import Round
from comity.algorithms.wrappers.base import wrapper
from comity.algorithms.wrappers.robust import Robust, update_gram
from comity.core.typing import FloatArray
from comity.settings import setting


@wrapper(
    "clip",
    title="Updates no longer than the median one",
    paper="Sun et al., 2019",
    place="global model",
    method="norm clipping before the host's rule",
)
class Clip(Robust):
    """Δ'_i = min(1, τ / ‖Δ_i‖) Δ_i, τ a multiple of the median length of those who moved.

    The host sees clipped updates, so it works with every rule, personal ones as well. Directions
    stay as they are: members who agree on a wrong one are heard as far as their number goes.
    """

    factor: float = setting(1.0, "largest length, in medians of this round's lengths", above=0)

    def combine(self, round: Round) -> FloatArray | None:
        lengths = np.sqrt(update_gram(round).diagonal())
        moved = lengths > 0
        if not moved.any():
            return None
        longest = self.factor * float(np.median(lengths[moved]))
        factors = np.where(lengths > longest, longest / np.where(moved, lengths, 1.0), 1.0)
        return np.diag(factors)
