"""Candidates that a search tried."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comity.core.typing import BoolArray, FloatArray, IntArray
from comity.searches import Search


@dataclass(frozen=True)
class Candidates:
    """The candidates of a search in the order in which they were tried."""

    weights: FloatArray
    """(candidates x objectives)."""
    iterations: IntArray
    """The iteration of each, from 1."""
    fruitful: BoolArray
    """Whether a model of the final front comes from it."""


def candidates_of(search: Search) -> Candidates:
    """Return the candidates of a finished search."""
    origins = {(point["iteration"], point["candidate"]) for point in search.results["front"]}
    rows = [
        (entry["iteration"], number, candidate["weight"])
        for entry in search.history
        for number, candidate in enumerate(entry["candidates"])
    ]
    return Candidates(
        weights=np.array([weight for _, _, weight in rows], dtype=float),
        iterations=np.array([iteration for iteration, _, _ in rows], dtype=np.int64),
        fruitful=np.array([row[:2] in origins for row in rows], dtype=bool),
    )
