"""Replay buffers of all clients of a fleet, client first. They never leave the clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
Rows = NDArray[np.int64]


class Replay:
    """For each client the last ``capacity`` transitions."""

    def __init__(self, clients: int, capacity: int, observation: Array, action: Array) -> None:
        def room(shape: tuple[int, ...], dtype: Any) -> Array:
            return np.zeros((clients, capacity, *shape), dtype=dtype)

        self._columns: dict[str, Array] = {
            "before": room(observation.shape, observation.dtype),
            "after": room(observation.shape, observation.dtype),
            "action": room(action.shape, action.dtype),
            "reward": room((), np.float32),
            "terminated": room((), np.bool_),
        }
        self._capacity = capacity
        self._added = np.zeros(clients, dtype=np.int64)

    def add(self, rows: Rows, **values: Array) -> None:
        """Store one transition for each of some clients, over the oldest one when full."""
        place = self._added[rows] % self._capacity
        for name, column in self._columns.items():
            column[rows, place] = values[name]
        self._added[rows] += 1

    def sample(self, rows: Rows, draws: NDArray[np.float64]) -> dict[str, Tensor]:
        """Batches (clients, batch) for draws uniform on [0, 1)."""
        size = np.minimum(self._added[rows], self._capacity)
        index = (draws * size[:, None]).astype(np.int64)
        return {
            name: torch.from_numpy(column[rows[:, None], index])
            for name, column in self._columns.items()
        }

    def state(self) -> dict[str, Array]:
        filled = int(min(self._added.max(initial=0), self._capacity))
        state = {name: column[:, :filled].copy() for name, column in self._columns.items()}
        return {**state, "added": self._added.copy()}

    def load(self, state: dict[str, Array]) -> None:
        self._added = state["added"].copy()
        for name, column in self._columns.items():
            column[:, : state[name].shape[1]] = state[name]
