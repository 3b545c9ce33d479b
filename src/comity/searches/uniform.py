"""Uniformly random weights: the control beside which every other generator is shown."""

from __future__ import annotations

import numpy as np

from comity.core.typing import FloatArray
from comity.searches.candidates import Findings, Generator, generator


@generator("random", title="Uniform random weights: the control")
class Random(Generator):
    """Generator of w ~ Dirichlet(1), independent of earlier results."""

    def propose(
        self, count: int, objectives: int, findings: Findings, draw: np.random.Generator
    ) -> FloatArray:
        return draw.dirichlet(np.ones(objectives), count)
