"""An equidistant grid of as many weights as the search may try."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from comity.core.preferences import equidistant
from comity.core.typing import FloatArray
from comity.searches.candidates import Found, Generator, generator


@generator("grid", title="Equidistant grid over the whole budget")
class Grid(Generator):
    """The grid in such an order that every beginning of it is spread as well."""

    def propose(
        self, count: int, objectives: int, found: Found, draw: np.random.Generator
    ) -> FloatArray:
        at = len(found.weights)
        return spread_out(found.budget, objectives)[at : at + count]


@lru_cache(maxsize=8)
def spread_out(count: int, objectives: int) -> FloatArray:
    """Equidistant weights, each as far as possible from all before it; the middle comes first."""
    weights = equidistant(count, objectives)
    order = [int(np.linalg.norm(weights - 1.0 / objectives, axis=1).argmin())]
    apart = np.full(count, np.inf)
    while len(order) < count:
        apart = np.minimum(apart, np.linalg.norm(weights - weights[order[-1]], axis=1))
        order.append(int(apart.argmax()))
    return weights[order]
