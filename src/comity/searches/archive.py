"""The archive of a search: non-dominated vectors and the models behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from comity.core.fleet import Fleet
from comity.core.pareto import nondominated
from comity.core.typing import FloatArray, NamedArrays


@dataclass(frozen=True)
class Origin:
    """Where a model of the archive comes from."""

    weight: list[float]
    """The preference that it was trained for."""
    iteration: int
    candidate: int
    round: int | None
    """The round after which the server held it; None: what the federation ended with."""


class Archive:
    """Vectors, models and their origins; only those that nothing dominates."""

    def __init__(self, objectives: int) -> None:
        self.vectors: FloatArray = np.zeros((0, objectives))
        self.models: Fleet | None = None
        self.origins: list[Origin] = []

    def __len__(self) -> int:
        return len(self.vectors)

    def add(self, vectors: FloatArray, models: Fleet, origins: Sequence[Origin]) -> None:
        """Take in models; of equal vectors the oldest stays."""
        every = np.concatenate([self.vectors, vectors])
        keep = np.flatnonzero(nondominated(every))
        if not (keep >= len(self.vectors)).any():
            return  # what is dominated by a newcomer goes only when the newcomer comes
        together = models if self.models is None else Fleet.cat([self.models, models])
        origins = [*self.origins, *origins]
        self.vectors, self.models = every[keep], together.select(keep).clone()
        self.origins = [origins[row] for row in keep]

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        tensors: NamedArrays = {"vectors": self.vectors}
        if self.models is not None:
            tensors.update({f"models/{k}": t.numpy() for k, t in self.models.tensors.items()})
        return tensors, {"origins": [asdict(origin) for origin in self.origins]}

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        prefix = "models/"
        models = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        self.vectors = tensors["vectors"].copy()
        self.models = Fleet.from_arrays(models)
        self.origins = [Origin(**origin) for origin in values["origins"]]
