"""Problems whose clients have data: samples, losses to make small, scores to judge by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from comity.core.pareto import hypervolume, reach, set_measures
from comity.core.phases import Batch
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.columns import Columns
from comity.datasets.partition import Share, shares
from comity.errors import UserError
from comity.problems.base import Problem


@dataclass(frozen=True)
class Samples:
    """All samples of a problem, before they are dealt out."""

    columns: Mapping[str, Tensor]
    """``inputs`` and whatever the losses and scores speak of, one row a sample each."""
    cells: IntArray
    """Samples that are alike (same label, same people): a deal keeps some for everybody."""
    needed: Mapping[int, tuple[str, IntArray]]
    """Cells without which a score would not be defined: their names, and all cells that serve."""
    silos: IntArray | None = None
    """Who holds which sample by nature, where the data know it."""
    silo_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What was done to the data on the way here."""


class Encoder(Protocol):
    """Makes inputs of the columns of a file, just as those of the samples were made."""

    @property
    def features(self) -> tuple[str, ...]:
        """The name of each input."""

    def __call__(self, columns: Columns) -> Float32Array: ...


@dataclass(frozen=True)
class PartitionSpec:
    """Among how many clients the samples are dealt out, and how unevenly."""

    clients: int
    seed: int
    partition: str
    sizes: str


@dataclass(frozen=True, kw_only=True)
class DataProblem(Problem):
    """Clients have samples.

    ``losses(outputs, batch)`` and ``scores(outputs, batch)`` are written for one client: its
    network's outputs and the batch they belong to (every column of the samples, and the ``weight``
    of each sample, zero for padding) give one number an objective. Losses are differentiable and
    made small; scores are what a model is judged by, and more is better.
    """

    samples: Callable[[], Samples]
    network: Callable[[Samples], nn.Module]
    losses: Callable[[Tensor, Batch], Tensor]
    scores: Callable[[Tensor, Batch], Tensor]
    constant: Callable[[Batch], Tensor]
    """The output, the same for every input, of a model that knows only a client's labels."""
    undefined: Callable[[Batch], Tensor] | None = None
    """Which losses have a term that a batch (without its inputs) leaves undefined."""
    prepare: Callable[[Samples, IntArray], Mapping[str, Tensor]] | None = None
    """The columns as they are learned from, given all training rows (to scale numbers)."""
    counted: Callable[[FloatArray], BoolArray] | None = None
    """Which vectors count for the front: what is trivially good in one thing may not."""
    strict_point: Callable[[], tuple[float, ...]] | None = None
    """A reference point that only models of some use are above."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """The columns that say which group a sample's person belongs to, and how many there are."""
    classified: bool = False
    """Whether ``label`` is a class, and the network has an output for each."""
    encode: Encoder | None = None
    """The inputs (before `prepare`) of new samples, from the columns of a file."""
    partitioner: Callable[[Samples, PartitionSpec], list[Share]] | None = None
    """Who gets which rows, where the problem has a way of its own."""
    learner: str = "supervised"
    deal: PartitionSpec | None = None

    def model(self) -> nn.Module:
        return self.network(self.samples())

    def partitioned(self, clients: int, seed: int, partition: str, sizes: str) -> DataProblem:
        return replace(self, deal=PartitionSpec(clients, seed, partition, sizes))

    def shares(self) -> list[Share]:
        """Which rows each client has."""
        if self.deal is None:
            raise UserError(f"problem {self.name}: its data have not been dealt out.")
        return _shares(self.samples, self.deal, self.partitioner)

    def columns(self) -> Mapping[str, Tensor]:
        """The samples as they are learned from."""
        if self.prepare is None:
            return self.samples().columns
        return _prepared(self.samples, self.prepare, self.deal, self.partitioner)

    def inputs_of(self, columns: Columns) -> Tensor:
        """The inputs of new samples, from the columns of a file, just as they are learned from."""
        if self.encode is None:
            raise UserError(
                f"problem {self.name} has no table, so rows of a file mean nothing to its models."
            )
        return self.prepared(torch.from_numpy(self.encode(columns)))

    def prepared(self, inputs: Tensor) -> Tensor:
        """New inputs, scaled by what is known of the training rows and of nothing else."""
        if self.prepare is None or self.deal is None:
            return inputs
        own = self.samples()
        both = torch.cat([own.columns["inputs"].to(inputs.dtype), inputs])
        longer = replace(own, columns={**own.columns, "inputs": both})
        train = np.concatenate([share.train for share in self.shares()])
        return self.prepare(longer, train)["inputs"][len(own.columns["inputs"]) :]

    def trivial(self, clients: Sequence[int], seed: int, episodes: int) -> FloatArray:
        """The constant classifier: every client's commonest answer, on its test samples."""
        columns, found = self.columns(), []
        for client in clients:
            share = self.shares()[client]
            output = self.constant(batch_of(columns, share.train))
            test = batch_of(columns, share.test)
            outputs = output.expand(len(share.test), *output.shape)
            found.append(self.scores(outputs, test))
        return np.asarray(torch.stack(found).double().numpy())

    def judged(self, outputs: Tensor, batch: Batch) -> FloatArray:
        """Scores of several clients at once, client first."""
        return np.asarray(vmap(self.scores)(outputs, dict(batch)).double().numpy())

    def counts(self, vectors: FloatArray) -> BoolArray:
        defined: BoolArray = np.asarray(np.isfinite(vectors).all(axis=1))
        return defined if self.counted is None else defined & self.counted(vectors)

    def measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        return self._measures(vectors, preferences, self.counts(vectors))

    def trivial_measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        everything = np.ones(len(vectors), dtype=bool)  # it is what the others must not be
        return self._measures(vectors, preferences, everything)

    def _measures(
        self, vectors: FloatArray, preferences: FloatArray, counted: BoolArray
    ) -> dict[str, float]:
        undefined = float((~np.isfinite(vectors).all(axis=1)).mean())
        values = set_measures(vectors[counted], self.reference_point, self.target())
        means = {"mean_scalarised": (vectors * preferences).sum(axis=1)}
        means |= {o.name: vectors[:, place] for place, o in enumerate(self.objectives)}
        for name, column in means.items():
            if np.isfinite(column).any():  # what is undefined for everybody has no mean
                values[name] = float(np.nanmean(column))
        values["own_hypervolume"] = float(reach(vectors[:, None], self.reference_point).mean())
        defined = np.isfinite(vectors).all(axis=1)
        values["dropped"] = float((defined & ~counted).mean())
        if undefined:
            values["undefined"] = undefined
        if self.strict_point is not None:
            values["strict_hypervolume"] = hypervolume(vectors[counted], self.strict_point())
        return values


def batch_of(columns: Mapping[str, Tensor], rows: IntArray) -> dict[str, Tensor]:
    """Some samples of one client, all of full weight."""
    index = torch.from_numpy(rows)
    batch = {name: column[index] for name, column in columns.items()}
    batch["weight"] = torch.ones(len(rows))
    return batch


@lru_cache(maxsize=16)
def _shares(
    samples: Callable[[], Samples],
    deal: PartitionSpec,
    partitioner: Callable[[Samples, PartitionSpec], list[Share]] | None,
) -> list[Share]:
    found = samples()
    if partitioner is not None:
        return partitioner(found, deal)
    return shares(
        found.cells,
        deal.clients,
        deal.seed,
        partition=deal.partition,
        sizes=deal.sizes,
        silos=found.silos,
        silo_names=found.silo_names,
        cell_names={cell: name for cell, (name, _) in found.needed.items()},
        needed={cell: serving.tolist() for cell, (_, serving) in found.needed.items()},
    )


@lru_cache(maxsize=4)
def _prepared(
    samples: Callable[[], Samples],
    prepare: Callable[[Samples, IntArray], Mapping[str, Tensor]],
    deal: PartitionSpec | None,
    partitioner: Callable[[Samples, PartitionSpec], list[Share]] | None,
) -> Mapping[str, Tensor]:
    found = samples()
    if deal is None:
        return found.columns
    train = np.concatenate([share.train for share in _shares(samples, deal, partitioner)])
    return prepare(found, train)
