"""Centred clipping (Karimireddy et al., 2021): nobody pulls the centre further than a radius."""

from __future__ import annotations

import numpy as np

from comity.algorithms.wrappers.base import wrapper
from comity.algorithms.wrappers.robust import ROUNDING, RobustRow
from comity.core.mixing import squared_distances
from comity.core.typing import FloatArray
from comity.settings import setting


@wrapper(
    "centered-clipping",
    title="Centred clipping",
    paper="Karimireddy et al., 2021",
    place="global model",
    method="differences from a centre, no longer than their median",
)
class CenteredClipping(RobustRow):
    """v ← v + Σ_i w_i min(1, τ / ‖x_i − v‖) (x_i − v), τ a multiple of the median ‖x_i − v‖.

    The paper leaves the first centre open. Here it is the giver whose median distance to the others
    is least (the mean of several, if equal), so that v stays a mean of givers. In a personal row it
    is the receiver's own model, and one step is made (He et al., 2022, for neighbours in a graph).
    """

    radius: float = setting(1.0, "τ, in medians of the distances from the centre", above=0)
    iterations: int = setting(3, "steps of the centre of a row for several clients", at_least=1)

    def row(self, gram: FloatArray, weights: FloatArray, own: int | None) -> FloatArray:
        others = np.arange(len(gram)) != own
        centre = _medoid(gram) if own is None else np.eye(len(gram))[own]
        for _ in range(self.iterations if own is None else 1):
            products = gram @ centre
            squares = gram.diagonal() - 2 * products + centre @ products
            distances = np.sqrt(np.clip(squares, 0.0, None))
            longest = self.radius * float(np.median(distances[others]))
            far = distances > longest
            pulls = weights * np.where(far, longest / np.where(far, distances, 1.0), 1.0)
            centre = (1.0 - pulls.sum()) * centre + pulls
        return np.asarray(np.clip(centre, 0.0, None))


def _medoid(gram: FloatArray) -> FloatArray:
    """Return equal weights of the givers whose median distance to all is least."""
    medians = np.median(np.sqrt(squared_distances(gram)), axis=1)
    nearest = (medians <= medians.min() * (1 + ROUNDING)).astype(np.float64)
    return np.asarray(nearest / nearest.sum())
