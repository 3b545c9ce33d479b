"""Replay buffers of all clients of a fleet, client first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from comity.core.typing import AnyArray, FloatArray, IntArray, NamedArrays


class Replay:
    """The last transitions of each client.

    Args:
        clients: Number of clients.
        capacity: Number of transitions that are kept per client.
        columns: One example of each value of a transition, for its shape and type.
    """

    def __init__(self, clients: int, capacity: int, **columns: AnyArray) -> None:
        # zeros take no memory before they are written to
        self._columns: NamedArrays = {
            name: np.zeros((clients, capacity, *column.shape), dtype=column.dtype)
            for name, column in columns.items()
        }
        self._capacity = capacity
        self._added = np.zeros(clients, dtype=np.int64)

    def add(self, rows: IntArray, **values: AnyArray) -> None:
        """Store one transition per client of ``rows``; a full buffer drops its oldest."""
        place = self._added[rows] % self._capacity
        for name, column in self._columns.items():
            column[rows, place] = values[name]
        self._added[rows] += 1

    @property
    def added(self) -> int:
        """Number of transitions that were ever stored, over all clients."""
        return int(self._added.sum())

    def sample(self, rows: IntArray, draws: FloatArray) -> dict[str, Tensor]:
        """Return stored transitions of some clients, one tensor (clients, batch, …) per column.

        Args:
            rows: The clients.
            draws: Numbers uniform on [0, 1), (clients, batch), that choose the transitions.
        """
        size = np.minimum(self._added[rows], self._capacity)
        index = (draws * size[:, None]).astype(np.int64)
        return {
            name: torch.as_tensor(column[rows[:, None], index])
            for name, column in self._columns.items()
        }

    def state(self) -> NamedArrays:
        """Return the filled part of all buffers as plain arrays."""
        filled = int(min(self._added.max(initial=0), self._capacity))
        state = {name: column[:, :filled].copy() for name, column in self._columns.items()}
        return {**state, "added": self._added.copy()}

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
        self._added = state["added"].copy()
        for name, column in self._columns.items():
            column[:, : state[name].shape[1]] = state[name]
