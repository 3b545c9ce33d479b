"""The geometric median (Pillutla et al., 2022: RFA): the point with the least summed distance."""

from __future__ import annotations

import numpy as np

from comity.algorithms.wrappers.base import wrapper
from comity.algorithms.wrappers.robust import RobustRow
from comity.core.typing import FloatArray
from comity.settings import setting

_ENOUGH = 1e-10


@wrapper(
    "geometric-median",
    title="The geometric median in place of a mean (RFA)",
    paper="Pillutla et al., 2022",
    place="global model",
    method="Weiszfeld's algorithm on the host's weights",
)
class GeometricMedian(RobustRow):
    """argmin_v Σ_i w_i ‖x_i − v‖, with the host's weights w, by Weiszfeld's iteration.

    v = Σ_i a_i x_i; a_i ∝ w_i / max(‖x_i − v‖, ν). A row of a personal host is the median of what
    that client would have averaged, with the weights that it would have given.
    """

    iterations: int = setting(100, "largest number of steps", at_least=1)
    smoothing: float = setting(1e-6, "ν, in root mean square distances from the mean", above=0)

    def row(self, gram: FloatArray, weights: FloatArray, own: int | None) -> FloatArray:
        chosen = weights
        scale = np.sqrt(float(weights @ _squares(gram, weights)))
        if scale == 0:  # all givers sent the same
            return weights
        for _ in range(self.iterations):
            distances = np.sqrt(_squares(gram, chosen))
            pulls = weights / np.maximum(distances, self.smoothing * scale)
            before, chosen = chosen, pulls / pulls.sum()
            if np.abs(chosen - before).max() < _ENOUGH:
                break
        return chosen


def _squares(gram: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ‖x_i − Σ_j weights_j x_j‖² for each i."""
    products = gram @ weights
    return np.clip(gram.diagonal() - 2 * products + weights @ products, 0.0, None)
