"""What the clients of a fleet hold: their samples, as whole parts and as batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from comity.core.rng import stream
from comity.core.typing import FloatArray, IntArray
from comity.problems.data import DataProblem


class ClientData:
    """Samples of some clients; ``rows`` and ``owners`` are clients, as places in the fleet.

    Samples are addressed by an *index*, a matrix of row numbers, one line a model.
    """

    def __init__(
        self,
        problem: DataProblem,
        clients: tuple[int, ...],
        seed: int,
        batch_size: int,
        pooled: bool = False,
    ) -> None:
        self._clients, self._seed = clients, seed
        self.columns = dict(problem.columns())
        everybody = problem.shares()
        shares = [everybody[client] for client in clients]
        self._train = [share.train for share in shares]
        if pooled and clients[0] == 0:  # what the first client learns from is everyone's
            self._train[0] = np.sort(np.concatenate([share.train for share in everybody]))
        together = np.concatenate([share.test for share in everybody])
        self._parts = {
            "train": _padded(self._train),
            "validation": _padded([share.validation for share in shares]),
            "test": _padded([share.test for share in shares]),
            "everyone": _padded([together] * len(clients)),
        }
        self.sizes: FloatArray = np.array([len(rows) for rows in self._train], dtype=float)
        self.batch_sizes: IntArray = np.minimum(self.sizes, batch_size).astype(np.int64)
        """Who has less than a batch uses all there is."""

    def part(self, purpose: str, rows: IntArray) -> tuple[Tensor, Tensor]:
        """The index of all samples of some clients for a purpose, and the weight of each."""
        index, weight = self._parts[purpose]
        place = torch.from_numpy(rows)
        return index[place], weight[place]

    def batches(self, owners: IntArray, count: int, purpose: str, round: int) -> Tensor:
        """The index of ``count`` batches of each owner: shuffled samples, pass after pass."""
        found: dict[int, IntArray] = {}
        for owner in owners.tolist():
            if owner in found:  # several models see the same batches of their owner
                continue
            rows, size = self._train[owner], int(self.batch_sizes[owner])
            generator = stream(self._seed, purpose, round, self._clients[owner])
            passes = -(-count * size // len(rows))
            order = np.concatenate([generator.permutation(rows) for _ in range(passes)])
            found[owner] = order[: count * size].reshape(count, size)
        return torch.from_numpy(np.stack([found[owner] for owner in owners.tolist()]))

    def gather(
        self, index: Tensor, weight: Tensor | None = None, inputs: bool = True
    ) -> dict[str, Tensor]:
        """The samples at an index, all of full weight unless said otherwise."""
        columns = {k: c for k, c in self.columns.items() if inputs or k != "inputs"}
        return taken(columns, index, weight)


def taken(
    columns: Mapping[str, Tensor], index: Tensor, weight: Tensor | None = None
) -> dict[str, Tensor]:
    """Samples out of columns of all samples."""
    flat = index.reshape(-1)
    batch = {  # several times faster than indexing with a matrix
        name: column.index_select(0, flat).reshape(*index.shape, *column.shape[1:])
        for name, column in columns.items()
    }
    batch["weight"] = torch.ones(index.shape) if weight is None else weight
    return batch


def _padded(parts: Sequence[IntArray]) -> tuple[Tensor, Tensor]:
    """Rows of unequal number as one matrix, and the weight of each: 0 where it only fills up."""
    longest = max(len(rows) for rows in parts)
    index = np.stack([np.resize(rows, longest) for rows in parts])
    weight = np.stack([np.arange(longest) < len(rows) for rows in parts])
    return torch.from_numpy(index), torch.from_numpy(weight).float()
