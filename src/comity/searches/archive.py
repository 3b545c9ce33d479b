"""The archive of a search: non-dominated vectors and the models behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from comity.core.fleet import Fleet
from comity.core.pareto import nondominated
from comity.core.storage import strip_prefix
from comity.core.typing import BoolArray, FloatArray, NamedArrays


@dataclass(frozen=True)
class Origin:
    """Origin of a model in the archive."""

    weight: list[float]
    """The preference that it was trained for."""
    iteration: int
    """The iteration of the search, from 1."""
    candidate: int
    """The candidate within the iteration, from 0."""
    round: int | None
    """The round after which the server held it; None: a final model of the federation."""


def counted_front(vectors: FloatArray, counts: Callable[[FloatArray], BoolArray]) -> BoolArray:
    """Return which vectors are not dominated by any that counts, and count themselves.

    Where none counts, all are treated as if they did: a search always ends with some model.

    Args:
        vectors: Objective vectors, one row each.
        counts: Returns which vectors count for a front (`Problem.counts`).
    """
    counted = counts(vectors)
    if not counted.any():
        return nondominated(vectors)
    best = np.zeros(len(vectors), dtype=bool)
    best[counted] = nondominated(vectors[counted])
    return best


class Archive:
    """Non-dominated vectors, their models and their origins.

    Args:
        objectives: Number of objectives.
        counts: Returns which vectors count for a front (`Problem.counts`).
    """

    def __init__(self, objectives: int, counts: Callable[[FloatArray], BoolArray]) -> None:
        self._counts = counts
        self.vectors: FloatArray = np.zeros((0, objectives))
        self.models: Fleet | None = None
        self.origins: list[Origin] = []

    def __len__(self) -> int:
        return len(self.vectors)

    def add(self, vectors: FloatArray, models: Fleet, origins: Sequence[Origin]) -> None:
        """Add models, and drop all that are dominated; of equal vectors the oldest stays.

        Args:
            vectors: Objectives of the models (models x objectives).
            models: One model per vector.
            origins: One origin per model.
        """
        union = np.concatenate([self.vectors, vectors])
        keep = np.flatnonzero(counted_front(union, self._counts))
        if not (keep >= len(self.vectors)).any():
            return  # nothing new is non-dominated, so nothing is dropped either
        fleet = models if self.models is None else Fleet.cat([self.models, models])
        origins = [*self.origins, *origins]
        self.vectors, self.models = union[keep], fleet.select(keep).clone()
        self.origins = [origins[row] for row in keep]

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return the archive as named arrays and plain values."""
        tensors: NamedArrays = {"vectors": self.vectors}
        if self.models is not None:
            tensors.update(
                {f"models/{k}": t.numpy(force=True) for k, t in self.models.tensors.items()}
            )
        return tensors, {"origins": [asdict(origin) for origin in self.origins]}

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.vectors = tensors["vectors"].copy()
        self.models = Fleet.from_arrays(strip_prefix(tensors, "models/"))
        self.origins = [Origin(**origin) for origin in values["origins"]]
