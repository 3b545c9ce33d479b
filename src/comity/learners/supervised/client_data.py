"""The samples of the clients of a fleet, as whole parts and as batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from comity.core.rng import stream
from comity.core.typing import FloatArray, IntArray
from comity.problems.data import DataProblem


class ClientData:
    """Samples of some clients, addressed by an *index*: a matrix of row numbers of the data set.

    An index has one line per model; ``rows`` and ``owners`` are clients, as rows of the fleet.

    Args:
        problem: The partitioned problem.
        clients: Number of each client in the federation, in the order of the fleet's rows.
        seed: Seed of the run.
        batch_size: Number of samples in a batch; all samples where a client has fewer.
        pooled: Whether the first client of the federation trains on the samples of all.
        global_test: Number of samples for the purpose ``everyone``, drawn among the test samples
            of all clients if there are more.
    """

    def __init__(
        self,
        problem: DataProblem,
        clients: tuple[int, ...],
        seed: int,
        batch_size: int,
        pooled: bool = False,
        global_test: int | Literal["all"] = "all",
    ) -> None:
        self._clients, self._seed = clients, seed
        self.columns = {k: torch.as_tensor(c) for k, c in problem.columns().items()}
        """All samples of the problem, one tensor per column."""
        federation = problem.client_rows()
        shares = [federation[client] for client in clients]
        self._train = [share.train for share in shares]
        if pooled and clients[0] == 0:
            self._train[0] = np.sort(np.concatenate([share.train for share in federation]))
        test_of_all = _test_rows_of_all(problem, seed, global_test)
        self._parts = {
            "train": _padded(self._train),
            "validation": _padded([share.validation for share in shares]),
            "test": _padded([share.test for share in shares]),
            "everyone": _shared(test_of_all, len(clients)),
        }
        self.sizes: FloatArray = np.array([len(rows) for rows in self._train], dtype=float)
        """Number of training samples of each client."""
        self.batch_sizes: IntArray = np.minimum(self.sizes, batch_size).astype(np.int64)
        """Number of samples in a batch of each client."""

    def part(self, purpose: str, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Return the index of all samples of some clients for a purpose, and their weights.

        Args:
            purpose: ``train``, ``validation``, ``test`` or ``everyone`` (the test samples of all
                clients of the federation, or some of them).
            rows: The clients. Shorter lines are filled up with samples of weight 0.
        """
        index, weight = self._parts[purpose]
        place = torch.as_tensor(rows)
        return index[place], weight[place]

    def batches(self, owners: IntArray, count: int, purpose: str, round: int) -> Tensor:
        """Return the index of ``count`` batches per owner: shuffled samples, pass after pass.

        Args:
            owners: One client per model, all with batches of the same size; models of the same
                owner get the same batches.
            count: Number of batches.
            purpose: Purpose of the random stream that shuffles.
            round: Number of the round.
        """
        batches: dict[int, IntArray] = {}
        for owner in owners.tolist():
            if owner in batches:
                continue
            rows, size = self._train[owner], int(self.batch_sizes[owner])
            generator = stream(self._seed, purpose, round, self._clients[owner])
            passes = -(-count * size // len(rows))
            order = np.concatenate([generator.permutation(rows) for _ in range(passes)])
            batches[owner] = order[: count * size].reshape(count, size)
        return torch.as_tensor(np.stack([batches[owner] for owner in owners.tolist()]))

    def gather(
        self, index: Tensor, weight: Tensor | None = None, inputs: bool = True
    ) -> dict[str, Tensor]:
        """Return the samples at an index.

        Args:
            index: Row numbers of the data set.
            weight: Weight of each sample; one for each by default.
            inputs: Whether the column ``inputs`` is among them.
        """
        columns = {k: c for k, c in self.columns.items() if inputs or k != "inputs"}
        return take_samples(columns, index, weight)


def take_samples(
    columns: Mapping[str, Tensor], index: Tensor, weight: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the samples at an index, with their ``weight`` (one for each by default)."""
    flat = index.reshape(-1)
    batch = {  # several times faster than indexing with a matrix
        name: column.index_select(0, flat).reshape(*index.shape, *column.shape[1:])
        for name, column in columns.items()
    }
    batch["weight"] = torch.ones(index.shape) if weight is None else weight
    return batch


@lru_cache(maxsize=4)
def _test_rows_of_all(problem: DataProblem, seed: int, number: int | Literal["all"]) -> IntArray:
    """Return the test rows of all clients, or a number drawn of them; alike for every fleet."""
    rows = np.concatenate([share.test for share in problem.client_rows()])
    if number == "all" or number >= len(rows):
        return rows
    return rows[np.sort(stream(seed, "global test").permutation(len(rows))[:number])]


def _padded(parts: Sequence[IntArray]) -> tuple[Tensor, Tensor]:
    """Return rows of unequal number as one matrix, and their weights: 0 for what fills up."""
    longest = max(len(rows) for rows in parts)
    index = np.stack([np.resize(rows, longest) for rows in parts])
    weight = np.stack([np.arange(longest) < len(rows) for rows in parts])
    return torch.as_tensor(index), torch.as_tensor(weight, dtype=torch.float32)


def _shared(rows: IntArray, clients: int) -> tuple[Tensor, Tensor]:
    """Return the same rows for each client, held once, and their weights."""
    index = torch.as_tensor(rows).expand(clients, -1)
    return index, torch.ones(len(rows)).expand(clients, -1)
