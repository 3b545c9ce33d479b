"""Control for ConFREE: the plain mean of the updates, as long as ConFREE's step."""

from __future__ import annotations

import numpy as np

from comity.algorithms.wrappers.base import wrapper
from comity.algorithms.wrappers.confree import NOTHING, ConFREE
from comity.core.typing import FloatArray


@wrapper(
    "scaled-mean",
    title="The mean update, as long as ConFREE's step",
    paper="control for Zheng et al., 2025",
    place="global model",
    method="mean, as long as a conflict-free step",
)
class ScaledMean(ConFREE):
    """Put ‖d‖ m / ‖m‖ in the place of a host's mean, with m = Σ_i Δ_i / n and ConFREE's step d.

    Lengths are those of each tensor, whatever the ``scope``; the settings are those of ConFREE.
    What ConFREE gains over this is due to its direction, what this gains over the host to its
    length. Where the updates of a tensor cancel, their mean is taken as it is.
    """

    def _step(self, weights: FloatArray, gram: FloatArray) -> FloatArray:
        mean = np.full(len(gram), 1 / len(gram))
        length = _length(mean, gram)
        if length <= NOTHING * np.sqrt(gram.diagonal().mean()):
            return mean
        return mean * (_length(weights, gram) / length)


def _length(weights: FloatArray, gram: FloatArray) -> float:
    """Return ‖Σ_i weights_i Δ_i‖."""
    return float(np.sqrt(max(float(weights @ gram @ weights), 0.0)))
