"""Problems whose clients have data: samples, losses to make small, scores to evaluate by."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from comity.core.devices import CPU, in_double, placed
from comity.core.pareto import hypervolume, reach, set_measures
from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.partition import SPLIT, ClientRows, PartitionSpec, Strata, partition_rows
from comity.datasets.reading import Columns, Reading
from comity.datasets.schema import EncodedRows
from comity.datasets.withholding import withhold
from comity.errors import UserError
from comity.problems.base import Problem


@dataclass(frozen=True)
class Samples:
    """All samples of a problem, before they are distributed among clients."""

    columns: Mapping[str, Tensor]
    """``inputs`` and the columns that losses and scores use, one row per sample each."""
    strata: IntArray
    """Stratum of each sample: samples that are alike (same label, same attribute values).

    A partition distributes each stratum on its own, so that all clients get some of it.
    """
    needed: Mapping[int, tuple[str, IntArray]]
    """Strata without which a score would be undefined for a client.

    Each maps to its name, for messages, and to all strata that serve in its place.
    """
    silos: IntArray | None = None
    """Silo of each sample (hospital, region), an index into ``silo_names``, where it is known."""
    silo_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks on what was done to the data."""

    def partition(self, spec: PartitionSpec, *, capped: bool = False) -> list[ClientRows]:
        """Return the rows of each client; arguments as in `partition_rows`."""
        strata = Strata(
            self.strata,
            needed={stratum: serving.tolist() for stratum, (_, serving) in self.needed.items()},
            stratum_names={stratum: name for stratum, (name, _) in self.needed.items()},
            silos=self.silos,
            silo_names=self.silo_names,
        )
        return partition_rows(strata, spec, capped=capped)


GROUP = "group:"
"""Start of the name of a column with attribute values, which must not be label or weight."""
REQUIRED = ("samples", "network", "losses", "scores", "constant")
"""Methods that a problem with data must have."""
OPTIONAL = (
    *("undefined", "loss_units", "prepare", "counted", "strict_point", "features", "encode"),
    *("partition", "attribute_values"),
)
"""Methods of a problem with data that have a default."""


class _FunctionsAsMethods(ABCMeta):
    """Collect keyword arguments that are named like a method into the field ``functions``.

    So a function can take the place of a method in ``DataProblem(losses=…)``, and in
    ``dataclasses.replace(problem, network=…)`` for every kind of problem with data.
    """

    def __call__(cls, **values: Any) -> Any:
        given = {name: values.pop(name) for name in (*REQUIRED, *OPTIONAL) if name in values}
        return super().__call__(functions={**values.pop("functions", {}), **given}, **values)


@dataclass(frozen=True, kw_only=True)
class DataProblem(Problem, metaclass=_FunctionsAsMethods):
    """A problem whose clients have samples.

    There are two ways to pose one, with the same names: pass functions as arguments
    (``DataProblem(name=…, samples=…, network=…, losses=…, scores=…, constant=…)``), or override
    methods in a subclass, which must be a dataclass of the same kind (frozen, keywords only) with
    hashable fields. A function that is passed wins over the method.

    ``losses`` and ``scores`` are written for one client: its network's outputs and the batch to
    which they belong give one number per objective. A batch has every column of the samples, and
    the ``weight`` of each sample, which is zero for padding.
    """

    attributes: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Columns with the value of a sensitive attribute per sample, and their numbers of values."""
    classified: bool = False
    """Whether ``label`` is a class, and the network has one output per class."""
    learner: str = "supervised"
    partition_spec: PartitionSpec | None = None
    """Number of clients and partition, once `partitioned` has been called."""
    withheld: float = 0.0
    """Share of the clients' training rows that the server holds instead, in a search."""
    federations: int = 1
    """Number of federations of the same clients that train side by side, in a search.

    Client c of federation f has the number f · clients + c.
    """
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict, hash=False)
    """Functions in place of methods; they are given by the methods' names."""

    if TYPE_CHECKING:  # what `_FunctionsAsMethods` accepts

        def __init__(self, **values: Any) -> None: ...

    def __post_init__(self) -> None:
        for name, function in self.functions.items():
            object.__setattr__(self, name, function)
        for name in REQUIRED:
            if not self.defines(name):
                raise TypeError(
                    f"problem {self.name}: {name} is missing; pass it as a function or override it"
                )

    def defines(self, name: str) -> bool:
        """Return whether a method has been passed as a function or overridden."""
        return name in self.functions or getattr(type(self), name) is not getattr(DataProblem, name)

    # -- to be passed or overridden --------------------------------------------------------

    def samples(self) -> Samples:
        """Return all samples; called often, so a subclass caches them."""
        raise NotImplementedError

    def network(self, samples: Samples) -> nn.Module:
        """Return a fresh network for these samples."""
        raise NotImplementedError

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return one client's losses, one per objective: differentiable, and made small."""
        raise NotImplementedError

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return one client's scores, one per objective, of which more is better.

        A score may be NaN where it is undefined for the client.
        """
        raise NotImplementedError

    def constant(self, batch: Batch) -> Tensor:
        """Return the output, equal for every input, of a model that depends on labels only.

        Args:
            batch: All training samples of a client.
        """
        raise NotImplementedError

    def undefined(self, batch: Batch) -> Tensor:
        """Return which losses have a term that a batch (without its inputs) leaves undefined."""
        return torch.zeros(len(self.objectives), dtype=torch.bool)

    def loss_units(self) -> tuple[float, ...]:
        """Return per objective the loss that weighs as much as a score of 1; by default 1.

        A learner may divide losses by these, so that weights mean the same for losses and scores.
        """
        return (1.0,) * len(self.objectives)

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Return the columns as they are learned from, e.g. with scaled numbers.

        Args:
            samples: All samples.
            train: Training rows of all clients, the only ones from which scales may be taken.
        """
        return samples.columns

    def counted(self, vectors: FloatArray) -> BoolArray:
        """Return which vectors count for the front; those that are trivially good may not."""
        return np.ones(len(vectors), dtype=bool)

    def strict_point(self) -> tuple[float, ...] | None:
        """Return a reference point that only models of some use are above, or None."""
        return None

    def features(self) -> tuple[str, ...]:
        """Return the names of the inputs, where they come from a table; else nothing."""
        return ()

    def encode(self, columns: Columns) -> Float32Array:
        """Return the inputs (before `prepare`) of new samples, from the columns of a file."""
        raise UserError(
            f"problem {self.name} has no table, so rows of a file mean nothing to its models."
        )

    def reading(self) -> Reading:
        """Return how files with new samples are read; what it does not say is found in them."""
        return Reading()

    def attribute_values(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the values of each attribute, in the order of ``attributes``."""
        return {
            column.removeprefix(GROUP): tuple(map(str, range(count)))
            for column, count in self.attributes.items()
        }

    def rows(self, columns: Columns) -> EncodedRows:
        """Return the same with labels and attribute values, so far as the file has them."""
        return EncodedRows(self.encode(columns), None, {}, {})

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Return the rows of each client."""
        return samples.partition(spec)

    # -- what follows from it --------------------------------------------------------------

    def model(self) -> nn.Module:
        """Return a fresh network of the problem's architecture."""
        return self.network(self.samples())

    def partitioned(
        self, clients: int, seed: int, partition: str, sizes: str, split: str = SPLIT
    ) -> DataProblem:
        """Return the problem with its samples distributed among clients; see `Problem`."""
        return replace(self, partition_spec=PartitionSpec(clients, seed, partition, sizes, split))

    def client_rows(self) -> list[ClientRows]:
        """Return the rows of each client of each federation."""
        return self._dealt()[0]

    def client_names(self) -> tuple[str, ...]:
        """Return the names of the clients, where each is a silo of the data; else nothing."""
        spec, names = self.partition_spec, self.samples().silo_names
        if spec is None or spec.rule != "natural" or spec.clients != len(names):
            return ()
        if any(name.isdecimal() for name in names):  # they would look like clients' numbers
            names = tuple(f"silo {name}" for name in names)
        plain = len(set(names)) == len(names) and all(name.isprintable() for name in names)
        return names if plain else ()

    def class_counts(self) -> list[list[int]] | None:
        """Return training samples per class, one list per client; None if labels are no classes."""
        labels = self.samples().columns.get("label")
        if labels is None or labels.is_floating_point() or not len(labels):
            return None
        values = labels.numpy()
        classes = int(values.max()) + 1
        rows = (share.train for share in self.client_rows())
        return [np.bincount(values[train], minlength=classes).tolist() for train in rows]

    def server_rows(self) -> IntArray:
        """Return the rows that the server of a search holds, in place of the clients."""
        return self._dealt()[1]

    def _dealt(self) -> tuple[list[ClientRows], IntArray]:
        """Return the rows of each client of each federation, and those of the server."""
        if self.partition_spec is None:
            raise UserError(f"problem {self.name}: its data have not been dealt out.")
        return _deal(self, self.partition_spec)

    def columns(self) -> Mapping[str, Tensor]:
        """Return the samples as they are learned from, on the CPU."""
        with placed(CPU):  # they are kept for the process, and a run copies them to its device
            if self.partition_spec is None or not self.defines("prepare"):
                return self.samples().columns
            return _prepared(self)

    def inputs_of(self, columns: Columns) -> Tensor:
        """Return the inputs of new samples as they are learned from, from a file's columns."""
        return self.prepared(torch.from_numpy(self.encode(columns)))

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return new inputs as they are learned from, scaled by training rows only."""
        if self.partition_spec is None or not self.defines("prepare"):
            return inputs
        samples = self.samples()
        both = torch.cat([samples.columns["inputs"].to(inputs.dtype), inputs])
        longer = replace(samples, columns={**samples.columns, "inputs": both})
        return self.prepare(longer, self._train())["inputs"][len(samples.columns["inputs"]) :]

    def _train(self) -> IntArray:
        """Return the training rows of all clients, once."""
        rows = self.client_rows()
        return np.concatenate([client.train for client in rows[: len(rows) // self.federations]])

    def trivial(self, clients: Sequence[int], seed: int, episodes: int) -> FloatArray:
        """Return the test scores of the constant output, one row per client."""
        columns, scores = self.columns(), []
        for client in clients:
            rows = self.client_rows()[client]
            output = self.constant(batch_of(columns, rows.train))
            test = batch_of(columns, rows.test)
            outputs = output.expand(len(rows.test), *output.shape)
            scores.append(self.scores(outputs, test))
        return in_double(torch.stack(scores))

    def evaluate_outputs(self, outputs: Tensor, batch: Batch) -> FloatArray:
        """Return the scores of several clients at once (clients x objectives).

        Args:
            outputs: Outputs of the clients' networks, client first.
            batch: The batches to which they belong, client first.
        """
        return in_double(vmap(self.scores)(outputs, dict(batch)))

    def counts(self, vectors: FloatArray) -> BoolArray:
        """Return which vectors (rows) count for a front: defined and `counted`."""
        defined: BoolArray = np.asarray(np.isfinite(vectors).all(axis=1))
        return defined & self.counted(vectors)

    def front_measures(
        self, vectors: FloatArray, reference_point: Sequence[float]
    ) -> dict[str, float]:
        """Return the measures of a set of vectors, the strict hypervolume among them."""
        values = super().front_measures(vectors, reference_point)
        if (point := self.strict_point()) is not None:
            values["strict_hypervolume"] = hypervolume(vectors, point)
        return values

    def measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        """Return all measures; vectors that do not count are left out of the front."""
        return self._measures(vectors, preferences, self.counts(vectors))

    def trivial_measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        """Return the measures of the trivial baseline, all of whose vectors count."""
        return self._measures(vectors, preferences, np.ones(len(vectors), dtype=bool))

    def _measures(
        self, vectors: FloatArray, preferences: FloatArray, counted: BoolArray
    ) -> dict[str, float]:
        defined = np.isfinite(vectors).all(axis=1)
        values = set_measures(vectors[counted], self.reference_point, self.target())
        means = {"mean_scalarised": (vectors * preferences).sum(axis=1)}
        means |= {o.name: vectors[:, index] for index, o in enumerate(self.objectives)}
        for name, column in means.items():
            if np.isfinite(column).any():  # what is undefined for all clients has no mean
                values[name] = float(np.nanmean(column))
        values["own_hypervolume"] = float(reach(vectors[:, None], self.reference_point).mean())
        values["dropped"] = float((defined & ~counted).mean())
        if undefined := float((~defined).mean()):
            values["undefined"] = undefined
        if (point := self.strict_point()) is not None:
            values["strict_hypervolume"] = hypervolume(vectors[counted], point)
        return values


def batch_of(columns: Mapping[str, Tensor], rows: IntArray) -> dict[str, Tensor]:
    """Return some samples of one client as a batch in which all have full weight.

    Args:
        columns: Columns of all samples, on the CPU.
        rows: Rows of the batch, which is on the run's device.
    """
    index = torch.from_numpy(rows)
    batch = {name: torch.as_tensor(column[index]) for name, column in columns.items()}
    batch["weight"] = torch.ones(len(rows))
    return batch


def weighted_mean(values: Tensor, batch: Batch) -> Tensor:
    """Return the mean of one value per sample, by the weights of the samples in their batch."""
    return (values * batch["weight"]).sum() / batch["weight"].sum()


@lru_cache(maxsize=16)
def _deal(problem: DataProblem, spec: PartitionSpec) -> tuple[list[ClientRows], IntArray]:
    samples = problem.samples()
    clients = problem.partition(samples, spec)
    if not problem.withheld or not len(samples.strata):
        return clients * problem.federations, np.zeros(0, dtype=np.int64)
    draw = stream(spec.seed, "server rows")
    clients, server = withhold(clients, samples.strata, problem.withheld, draw)
    for name, serving in samples.needed.values():
        if not np.isin(samples.strata[server], serving).any():
            raise UserError(
                f"search.server_share = {problem.withheld:g}: the server gets {len(server)} rows, "
                f"and none of '{name}', without which it cannot evaluate models; raise the share."
            )
    if not len(server):
        raise UserError(
            f"search.server_share = {problem.withheld:g}: the server gets no row on which it could "
            "evaluate models; raise the share."
        )
    return clients * problem.federations, server


@lru_cache(maxsize=4)
def _prepared(problem: DataProblem) -> Mapping[str, Tensor]:
    return problem.prepare(problem.samples(), problem._train())
