"""A user's own datasets, one per client, as a problem: `from_datasets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.apportionment import set_aside
from comity.datasets.encoding import number_of
from comity.datasets.own_items import DRAWN, PARTS, Fields, Items, read_items
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.datasets.reading import Columns
from comity.errors import UserError, unknown
from comity.problems.answers import logit_of_yes
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples, weighted_mean
from comity.problems.fairness import TRIVIAL, FairnessSettings
from comity.problems.gaps import METRICS, Aim, Metric, relaxed, strata_of, unfairness
from comity.problems.networks import BodyAndHead, cnn, layers, mlp
from comity.problems.registry import register

_HIDDEN = (64, 32)
_LEAST_SIDE = 16  # of pictures that are convolved
_FAIR = FairnessSettings()


def from_datasets(
    clients: Sequence[Any] | Mapping[str, Any],
    *,
    name: str = "own-datasets",
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    attribute: str | None = None,
    metrics: Sequence[Metric] = ("dp",),
    network: Callable[[], nn.Module] | None = None,
) -> DatasetsProblem:
    """Return a problem whose clients have the given datasets: accuracy and, if asked for, fairness.

    All items are read now. The problem is registered under its name and a fingerprint of its items,
    so that a run is resumed or opened wherever the same datasets have been given before.

    Args:
        clients: One entry per client, in a list or by name. An entry is a dataset with a length and
            items by number (of torch, Hugging Face, Flower Datasets, a list), a tuple (train, test)
            or (train, validation, test) of them, or a mapping by these names. Where no validation
            data are given they are drawn from the training data, by the first two numbers of the
            run's ``split_ratio``; of a single dataset all three parts are drawn.
        name: Name of the problem, before the fingerprint.
        inputs: Where items are mappings, the column of the input, or several columns of numbers;
            default: the first of inputs, image, img, pixel_values, … that there is.
        label: Likewise the column with the class, 0, 1, …
        attribute: A sensitive attribute: its column, or of items (input, label, value) its name.
            Labels are then 0 and 1, and fairness is an objective for each metric.
        metrics: Some of dp, eo and eodds.
        network: Function that returns a fresh network with one output per class; default: two
            convolutions for pictures from 16 x 16 pixels on, else layers of 64 and 32.
    """
    names = tuple(map(str, clients)) if isinstance(clients, Mapping) else ()
    given = clients.values() if isinstance(clients, Mapping) else clients
    if not isinstance(clients, Mapping | Sequence) or isinstance(clients, str) or not clients:
        raise UserError("from_datasets: give a list with one dataset per client, or a mapping.")
    if not name.replace("-", "").replace("_", "").isalnum():
        raise UserError(f"from_datasets: name = {name!r}: must be of letters, digits, - and _.")
    if len(set(names)) < len(names):
        raise UserError(f"from_datasets: names of clients must differ, got {', '.join(names)}.")
    called = names or tuple(f"client {number}" for number in range(len(clients)))
    columns = inputs if isinstance(inputs, str) or inputs is None else tuple(inputs)
    items = read_items(dict(zip(called, given, strict=True)), Fields(columns, label, attribute))
    _check_classes(items, called)
    aims = _aims(items, attribute, metrics)
    pictures = items.inputs.ndim == 4
    problem = DatasetsProblem(
        name=f"{name}@{items.fingerprint[:12]}",
        title=f"{name}: one of {int(items.label.max()) + 1} classes, data of {len(called)} clients",
        objectives=_objectives(aims),
        reference_point=(0.0,) * (1 + len(aims)),
        attributes={aim.column: aim.values for aim in aims},
        classified=True,
        defaults={
            "learning_rate": 1e-3,
            "batch_size": 32,
            "normalise": "units" if aims else "none",
            "local_epochs": 1,
        },
        run_defaults={
            "clients": len(called),
            "partition": "natural",
            "rounds": 20,
            **({"preferences": "interior"} if aims else {}),
            **({"global_test": 1000} if pictures else {}),
        },
        items=items,
        names=names,
        aims=aims,
        column_names=columns if isinstance(columns, tuple) else (),
        architecture=network,
    )
    _check_network(problem)
    register(problem)
    return problem


@dataclass(frozen=True, kw_only=True)
class DatasetsProblem(DataProblem):
    """Accuracy, and fairness for each of some aims, on datasets that were given."""

    items: Items
    names: tuple[str, ...]
    """Names of the clients; none if they were not named."""
    aims: tuple[Aim, ...]
    column_names: tuple[str, ...]
    """Names of the inputs, where they are columns of numbers."""
    architecture: Callable[[], nn.Module] | None = field(default=None)
    """Function that returns the user's own network."""

    def samples(self) -> Samples:
        """Return all items; strata are classes and attribute values."""
        return _samples(self)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.items.label.max()) + 1

    def network(self, samples: Samples) -> nn.Module:
        """Return the user's own network, or one that fits the inputs."""
        if self.architecture is not None:
            return self.architecture()
        shape = self.items.inputs.shape[1:]
        if len(shape) == 1:
            return nn.Sequential(*layers(shape[0], _HIDDEN, self.classes))
        channels, height, width = shape
        fitting = cnn if min(height, width) >= _LEAST_SIDE else mlp
        whole = fitting(channels, height, width, self.classes)
        if self.items.inputs.dtype == np.uint8:
            return whole
        # numbers are taken as they are: only bytes are scaled
        return BodyAndHead(nn.Sequential(*list(whole.body)[1:]), whole.head)

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return cross entropy, and per aim its relaxed gap plus a little cross entropy."""
        error = weighted_mean(F.cross_entropy(outputs, batch["label"], reduction="none"), batch)
        if not self.aims:
            return error.reshape(1)
        yes = relaxed(_logit(outputs), _FAIR.slope)
        gaps = [unfairness(aim, yes, batch)[0] for aim in self.aims]
        return torch.stack(
            [error, *(_FAIR.scale * value + _FAIR.regulariser * error for value in gaps)]
        )

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return accuracy and 1 − gap of hard answers; NaN where too few values are present."""
        answers = outputs.argmax(dim=-1)
        accuracy = weighted_mean((answers == batch["label"]).float(), batch)
        fair = []
        for aim in self.aims:
            value, defined = unfairness(aim, answers.float(), batch)
            fair.append(torch.where(defined, 1 - value, torch.nan))
        return torch.stack([accuracy, *fair])

    def constant(self, batch: Batch) -> Tensor:
        """Return logits that always name a client's commonest class: the counts of the classes."""
        return F.one_hot(batch["label"], self.classes).sum(dim=0).float()

    def undefined(self, batch: Batch) -> Tensor:
        """Return which objectives compare attribute values that a batch lacks."""
        nothing = torch.zeros_like(batch["weight"])
        gaps = [~unfairness(aim, nothing, batch)[1] for aim in self.aims]
        return torch.stack([torch.zeros((), dtype=torch.bool), *gaps])

    def loss_units(self) -> tuple[float, ...]:
        """Return ln 2 and, per aim, 1/2, as in `comity.problems.fairness`."""
        return (float(np.log(2)), *(0.5,) * len(self.aims))

    def counted(self, vectors: FloatArray) -> BoolArray:
        """Return which vectors are not perfectly fair in everything, as a constant answer is."""
        if not self.aims:
            return super().counted(vectors)
        return np.asarray((vectors[:, 1:] <= 1 - TRIVIAL).any(axis=1))

    def attribute_values(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of the attribute's values."""
        return {aim.attribute: self.items.values for aim in self.aims}

    def features(self) -> tuple[str, ...]:
        """Return the names of the inputs, where they are columns of numbers."""
        return self.column_names

    def encode(self, columns: Columns) -> Float32Array:
        """Return the inputs of new rows of a file, where inputs are columns of numbers."""
        if not self.column_names:
            return super().encode(columns)
        blocks = []
        for name in self.column_names:
            if name not in columns:
                raise unknown("column of the new rows", name, columns)
            numbers = np.array([number_of(cell) for cell in columns[name]])
            wrong = np.flatnonzero(~np.isfinite(numbers))
            if len(wrong):
                cell = columns[name][wrong[0]]
                raise UserError(
                    f"new rows: row {wrong[0] + 2}, column '{name}' must be a number, got '{cell}'."
                )
            blocks.append(numbers)
        return np.stack(blocks, axis=1).astype(np.float32)

    def client_names(self) -> tuple[str, ...]:
        """Return the names of the clients, if they were named."""
        return super().client_names() if self.names else ()

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Return the rows of each client: the parts that were given, or drawn ones."""
        if (self.items.part == DRAWN).all():
            return samples.partition(spec, capped=not self.aims)
        count = len(samples.silo_names)
        if spec.partition != "natural" or spec.clients != count:
            raise UserError(
                f"partition '{spec.partition}' with {spec.clients} clients: the datasets of "
                f"{self.name} come in parts, so each is a client: say partition = natural and "
                f"clients = {count}."
            )
        shares = []
        order = stream(spec.seed, "partition", 1).permutation(len(samples.strata))
        for client in range(count):
            train, validation, test = (
                order[(self.items.client[order] == client) & (self.items.part[order] == part)]
                for part in range(len(PARTS))
            )
            if not len(validation):
                train, validation = set_aside(train, samples.strata, spec.fractions[:2])
            if not len(train) or not len(validation):
                raise UserError(
                    f"from_datasets: {samples.silo_names[client]} has too few training items to "
                    "draw validation items from them; give it more, or validation items."
                )
            shares.append(ClientRows(np.sort(train), np.sort(validation), np.sort(test)))
        return shares


@dataclass(frozen=True)
class _People:
    """Labels and attribute values of items, for strata."""

    label: IntArray
    sensitive: Mapping[str, IntArray]
    attribute_values: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=4)
def _samples(problem: DatasetsProblem) -> Samples:
    items, aims = problem.items, problem.aims
    columns = {
        "inputs": torch.from_numpy(items.inputs),
        "label": torch.from_numpy(items.label),
        **{aim.column: torch.from_numpy(items.value) for aim in aims},
    }
    strata, needed = items.label, dict[int, tuple[str, IntArray]]()
    if aims:
        values = {aim.attribute: items.value for aim in aims}
        strata, needed = strata_of(_People(items.label, values, problem.attribute_values()), aims)
    names = problem.names or tuple(f"client {n}" for n in range(int(items.client.max()) + 1))
    return Samples(columns, strata, needed, items.client, names)


def _logit(outputs: Tensor) -> Tensor:
    logit = logit_of_yes(outputs)
    assert logit is not None  # checked when the problem was made
    return logit


# -- checks --------------------------------------------------------------------------------


def _check_classes(items: Items, clients: Sequence[str]) -> None:
    """Refuse a single class, and numbers of classes that nobody has."""
    counts = np.bincount(items.label)
    if len(counts) < 2:
        raise UserError("from_datasets: all labels are 0; there must be two classes or more.")
    if not counts.all():
        top = int(items.label.argmax())
        raise UserError(
            f"from_datasets: no item has the label {int(counts.argmin())}, but one of "
            f"{clients[items.client[top]]} has {items.label[top]}; number the classes 0, 1, … "
            "without gaps."
        )


def _aims(items: Items, attribute: str | None, metrics: Sequence[Metric]) -> tuple[Aim, ...]:
    if attribute is None:
        return ()
    for metric in metrics:
        if metric not in METRICS:
            raise unknown("metric", metric, METRICS)
    if not metrics or len(set(metrics)) < len(metrics):
        raise UserError(f"from_datasets: metrics must be some of {', '.join(METRICS)}, each once.")
    if items.label.max() > 1:
        raise UserError(
            f"from_datasets: attribute '{attribute}' needs labels of 0 and 1 (no and yes); there "
            f"are {int(items.label.max()) + 1} classes."
        )
    return tuple(Aim(attribute, metric, len(items.values)) for metric in metrics)


def _objectives(aims: Sequence[Aim]) -> tuple[Objective, ...]:
    objectives = [Objective("accuracy", "share", "right answers")]
    for aim in aims:
        name = "fairness" if len(aims) == 1 else f"fairness-{aim.metric}"
        meaning = f"1 - gap between groups of {aim.attribute}: {METRICS[aim.metric]}"
        objectives.append(Objective(name, "1 - gap", meaning))
    return tuple(objectives)


@torch.no_grad()
def _check_network(problem: DatasetsProblem) -> None:
    """Refuse a network that does not map inputs to one output per class."""
    module, inputs = problem.model(), torch.from_numpy(problem.items.inputs[:2])
    if not isinstance(module, nn.Module):
        raise UserError(
            f"from_datasets: network returned a {type(module).__name__}; it must return a fresh "
            "nn.Module."
        )
    shown = f"{list(inputs.shape[1:])} {str(inputs.dtype).removeprefix('torch.')}"
    try:
        outputs = module.eval()(inputs)
    except Exception as error:  # whatever the user's own code raises
        raise UserError(
            f"from_datasets: the network cannot read inputs of {shown}: {error}"
        ) from error
    if tuple(outputs.shape) != (len(inputs), problem.classes):
        raise UserError(
            f"from_datasets: the network maps {len(inputs)} inputs to outputs of shape "
            f"{list(outputs.shape)}; it must be [{len(inputs)}, {problem.classes}], one per class."
        )
