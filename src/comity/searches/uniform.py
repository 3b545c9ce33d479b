"""Uniformly random weights: the control against which every other generator must be shown."""

from __future__ import annotations

import numpy as np

from comity.core.typing import FloatArray
from comity.searches.candidates import Found, Generator, generator


@generator("random", title="Uniform random weights: the control")
class Random(Generator):
    """w ~ Dirichlet(1), whatever was found before."""

    def propose(
        self, count: int, objectives: int, found: Found, draw: np.random.Generator
    ) -> FloatArray:
        return draw.dirichlet(np.ones(objectives), count)
