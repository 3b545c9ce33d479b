"""Accuracy against group fairness on tables of people: what banks and hospitals argue about.

The first objective is accuracy, every other one is fairness, 1 − gap, for an attribute and a
metric. The gap is the largest difference between groups in how often the answer is yes: among all
(demographic parity, ``dp``), among those whose label is yes (equal opportunity, ``eo``), or the
larger of the gaps among the yeses and among the noes (equalised odds, ``eodds``). Models are judged
by hard answers; they are trained on a relaxation of them (thesis eq. 5.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.columns import Columns
from comity.datasets.shipped import DATASETS, dataset
from comity.datasets.tables import Table
from comity.errors import UserError
from comity.problems.base import Objective, register
from comity.problems.data import DataProblem, Samples
from comity.problems.networks import layers
from comity.settings import Settings, setting

Metric = Literal["dp", "eo", "eodds"]
METRICS: dict[Metric, str] = {
    "dp": "demographic parity",
    "eo": "equal opportunity",
    "eodds": "equalised odds",
}
_LABELS: dict[Metric, tuple[int | None, ...]] = {"dp": (None,), "eo": (1,), "eodds": (1, 0)}
"""Among which labels a metric compares groups; None: among all."""

TRIVIAL = 1e-3
"""A model that is fairer than this misses perfection by has most likely learned nothing."""


def _column(attribute: str) -> str:
    """The column of an attribute's groups; it must not be taken for the label or the weight."""
    return f"group:{attribute}"


@dataclass(frozen=True)
class Aim:
    """One fairness objective: between which groups, in which sense."""

    attribute: str
    metric: Metric
    groups: int

    @property
    def column(self) -> str:
        """Which column of the samples has the groups."""
        return _column(self.attribute)


# -- losses and scores of one client -------------------------------------------------------


def relaxed(logits: Tensor, slope: float) -> Tensor:
    """tanh(c · max(0, 2f − 1)) / 2 + 1/2 with f = sigmoid(logit): a yes that has a gradient."""
    return torch.tanh(slope * torch.relu(2 * torch.sigmoid(logits) - 1)) / 2 + 0.5


def gap(answers: Tensor, group: Tensor, weight: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Largest difference between the groups' mean answers, and whether two groups are there."""
    member = (group.unsqueeze(-1) == torch.arange(groups)) * weight.unsqueeze(-1)
    size = member.sum(dim=0)
    there = size > 0
    rate = (member * answers.unsqueeze(-1)).sum(dim=0) / torch.where(there, size, 1.0)
    infinity = torch.tensor(torch.inf)
    widest = torch.where(there, rate, -infinity).amax() - torch.where(there, rate, infinity).amin()
    defined = there.sum() > 1
    return torch.where(defined, widest, 0.0), defined


def unfairness(aim: Aim, answers: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The gap that an aim speaks of, and whether all of it is defined."""
    found, defined = [], []
    for label in _LABELS[aim.metric]:
        weight = batch["weight"]
        if label is not None:
            weight = weight * (batch["label"] == label)
        value, known = gap(answers, batch[aim.column], weight, aim.groups)
        found.append(value)
        defined.append(known)
    return torch.stack(found).amax(), torch.stack(defined).all()


@dataclass(frozen=True)
class Losses:
    """Cross entropy, and for each aim its relaxed gap plus a little cross entropy (A.1)."""

    aims: tuple[Aim, ...]
    slope: float
    scale: float
    regulariser: float

    def __call__(self, outputs: Tensor, batch: Batch) -> Tensor:
        logits, weight = outputs.squeeze(-1), batch["weight"]
        entropy = F.binary_cross_entropy_with_logits(logits, batch["label"], reduction="none")
        error = (entropy * weight).sum() / weight.sum()
        yes = relaxed(logits, self.slope)
        gaps = [unfairness(aim, yes, batch)[0] for aim in self.aims]
        return torch.stack(
            [error, *(self.scale * value + self.regulariser * error for value in gaps)]
        )


@dataclass(frozen=True)
class Scores:
    """Accuracy and 1 − gap of hard answers; not a number where too few groups are there."""

    aims: tuple[Aim, ...]

    def __call__(self, outputs: Tensor, batch: Batch) -> Tensor:
        yes, weight = (outputs.squeeze(-1) > 0).float(), batch["weight"]
        accuracy = ((yes == batch["label"]) * weight).sum() / weight.sum()
        fair = []
        for aim in self.aims:
            value, defined = unfairness(aim, yes, batch)
            fair.append(torch.where(defined, 1 - value, torch.nan))
        return torch.stack([accuracy, *fair])


@dataclass(frozen=True)
class Undefined:
    """Which objectives a batch cannot speak of."""

    aims: tuple[Aim, ...]

    def __call__(self, batch: Batch) -> Tensor:
        nothing = torch.zeros_like(batch["weight"])
        gaps = [~unfairness(aim, nothing, batch)[1] for aim in self.aims]
        return torch.stack([torch.zeros_like(gaps[0]), *gaps])


def commonest(batch: Batch) -> Tensor:
    """The logit of the classifier that always gives a client's commonest answer."""
    return torch.where(batch["label"].mean() > 0.5, 1.0, -1.0).reshape(1)


# -- samples -------------------------------------------------------------------------------


@dataclass(frozen=True)
class People:
    """The samples of a fairness problem: those of a table, sorted into cells."""

    table: partial[Table]
    attributes: tuple[str, ...]
    metrics: tuple[Metric, ...]

    def __call__(self) -> Samples:
        return _people(self)


@lru_cache(maxsize=8)
def _people(source: People) -> Samples:
    table = source.table()
    names = [("label", ("no", "yes")), *((a, table.groups[a]) for a in source.attributes)]
    codes = [table.label, *(table.sensitive[a] for a in source.attributes)]
    cells = np.ravel_multi_index(codes, [len(values) for _, values in names])
    sizes = np.bincount(cells)
    needed: dict[int, tuple[str, IntArray]] = {}
    for place, attribute in enumerate(source.attributes, start=1):
        for metric in source.metrics:
            for label in _LABELS[metric]:
                for group, name in enumerate(table.groups[attribute]):
                    rows = codes[place] == group
                    if label is not None:
                        rows &= table.label == label
                    # the cell in which most of those people are stands for all of them
                    cell = int(np.bincount(cells[rows], minlength=len(sizes)).argmax())
                    where = "" if label is None else f" with label {('no', 'yes')[label]}"
                    about = (f"{attribute} = {name}{where}", np.unique(cells[rows]))
                    needed.setdefault(cell, about)
    columns = {
        "inputs": torch.from_numpy(table.inputs),
        "label": torch.from_numpy(table.label).float(),
        **{_column(a): torch.from_numpy(table.sensitive[a]) for a in source.attributes},
    }
    return Samples(columns, cells, needed, table.silos, table.silo_names, table.notes)


@dataclass(frozen=True)
class Standardised:
    """Numbers of the inputs measured from the training rows' mean, in their spread."""

    table: partial[Table]

    def __call__(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        numeric = torch.from_numpy(self.table().numeric)
        if not numeric.any():
            return samples.columns
        inputs = samples.columns["inputs"].clone()
        seen = inputs[torch.from_numpy(train)][:, numeric]
        inputs[:, numeric] = (inputs[:, numeric] - seen.mean(0)) / seen.std(0).clamp(min=1e-6)
        return {**samples.columns, "inputs": inputs}


@dataclass(frozen=True)
class Encoded:
    """New people as inputs, just like those in the table."""

    table: partial[Table]

    @property
    def features(self) -> tuple[str, ...]:
        return self.table().features

    def __call__(self, columns: Columns) -> Float32Array:
        return self.table().encode(columns)


@dataclass(frozen=True)
class Network:
    """A plain network with one logit."""

    hidden: tuple[int, ...]

    def __call__(self, samples: Samples) -> nn.Module:
        return nn.Sequential(*layers(samples.columns["inputs"].shape[1], self.hidden, 1))


def nontrivial(vectors: FloatArray) -> BoolArray:
    """Which vectors are not perfectly fair in everything, as a constant answer is."""
    return np.asarray((vectors[:, 1:] <= 1 - TRIVIAL).any(axis=1))


@dataclass(frozen=True)
class Strict:
    """Just worse than the constant classifier in accuracy, and half-way to fairness."""

    table: partial[Table]
    aims: int

    def __call__(self) -> tuple[float, ...]:
        share = float(self.table().label.mean())
        return (round(max(share, 1 - share) - 0.05, 6), *(0.5,) * self.aims)


# -- problems ------------------------------------------------------------------------------


class FairnessSettings(Settings):
    """How a fairness problem is posed; the sense of the first four is the thesis'."""

    slope: float = setting(3.0, "steepness c of the relaxed answer", above=0)
    scale: float = setting(1.0, "factor of the relaxed gap (its range is half the hard one's)")
    regulariser: float = setting(0.1, "cross entropy added to a fairness loss", at_least=0)
    hidden: tuple[PositiveInt, ...] = setting((64, 32), "widths of the network's hidden layers")


def fairness_problem(
    name: str,
    title: str,
    table: partial[Table],
    groups: Mapping[str, int],
    metrics: Sequence[Metric],
    settings: FairnessSettings | None = None,
) -> DataProblem:
    """Accuracy against fairness for each of the attributes in each of the metrics."""
    if not metrics:
        raise UserError(f"problem {name}: metrics must name at least one of {', '.join(METRICS)}.")
    s = settings or FairnessSettings()
    aims = tuple(Aim(a, metric, count) for a, count in groups.items() for metric in metrics)
    objectives = [Objective("accuracy", "share", "right answers")]
    for aim in aims:
        own = [aim.attribute] * (len(groups) > 1) + [aim.metric] * (len(metrics) > 1)
        sense = f"1 - gap between groups of {aim.attribute}: {METRICS[aim.metric]}"
        objectives.append(Objective("-".join(["fairness", *own]), "1 - gap", sense))
    return DataProblem(
        name=name,
        title=title,
        objectives=tuple(objectives),
        reference_point=(0.0,) * len(objectives),
        samples=People(table, tuple(groups), tuple(metrics)),
        network=Network(tuple(s.hidden)),
        losses=Losses(aims, s.slope, s.scale, s.regulariser),
        scores=Scores(aims),
        constant=commonest,
        undefined=Undefined(aims),
        prepare=Standardised(table),
        counted=nontrivial,
        strict_point=Strict(table, len(aims)),
        groups={_column(attribute): count for attribute, count in groups.items()},
        encode=Encoded(table),
        defaults={"learning_rate": 5e-3},
    )


def _register_all() -> None:
    """Every data set with every attribute and metric, with two attributes, and with two metrics."""
    for data, about in DATASETS.items():
        table = partial(dataset, data)
        chosen: list[tuple[tuple[str, ...], tuple[Metric, ...]]] = []
        for count in (1, 2):
            for attributes in combinations(about.attributes, count):
                chosen += [(attributes, (metric,)) for metric in METRICS]
        chosen += [((attribute,), ("dp", "eo")) for attribute in about.attributes]
        for attributes, metrics in chosen:
            senses = " and ".join(METRICS[metric] for metric in metrics)
            register(
                fairness_problem(
                    "-".join([data, *attributes, *metrics]),
                    f"{about.title}; fair to {' and '.join(attributes)} by {senses}",
                    table,
                    {a: len(about.attributes[a]["groups"]) for a in attributes},
                    metrics,
                )
            )


_register_all()
