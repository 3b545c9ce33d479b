"""An equidistant grid of as many weights as the search may try."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from comity.core.preferences import equidistant
from comity.core.typing import FloatArray
from comity.searches.candidates import Findings, Generator, generator


@generator("grid", title="Equidistant grid over the whole budget")
class Grid(Generator):
    """Generator over a grid, in an order whose every beginning is spread out as well."""

    def propose(
        self, count: int, objectives: int, findings: Findings, draw: np.random.Generator
    ) -> FloatArray:
        at = len(findings.weights)
        return spread_out(findings.budget, objectives)[at : at + count]


@lru_cache(maxsize=8)
def spread_out(count: int, objectives: int) -> FloatArray:
    """Return equidistant weights, each as far as possible from all before it; the middle first."""
    weights = equidistant(count, objectives)
    order = [int(np.linalg.norm(weights - 1.0 / objectives, axis=1).argmin())]
    distance = np.full(count, np.inf)
    while len(order) < count:
        distance = np.minimum(distance, np.linalg.norm(weights - weights[order[-1]], axis=1))
        order.append(int(distance.argmax()))
    return weights[order]
