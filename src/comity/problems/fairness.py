"""Accuracy against fairness on tables of people.

The first objective is accuracy, every other one is fairness, 1 − gap, for an attribute and a
metric. The gap is the largest difference between the attribute's values in how often the answer is
yes: among all (demographic parity, ``dp``), among those whose label is yes (equal opportunity,
``eo``), or the larger of the gaps among the yeses and among the noes (equalised odds, ``eodds``).
Models are evaluated by hard answers; they are trained on a relaxation of them (thesis eq. 5.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.reading import Columns, Reading
from comity.datasets.schema import EncodedRows, Schema
from comity.datasets.shipped import DATASETS, dataset
from comity.datasets.tables import Table
from comity.errors import UserError
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples
from comity.problems.gaps import METRICS, Aim, Metric, column_of, relaxed, strata_of, unfairness
from comity.problems.networks import layers
from comity.settings import Settings, setting

TRIVIAL = 1e-3
"""Largest gap of a model that counts as trivially fair, as a constant answer is."""


# -- problems ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FairnessProblem(DataProblem):
    """Accuracy, and fairness for each of some aims, learned by a network with one logit."""

    table: Callable[[], Table]
    aims: tuple[Aim, ...]
    slope: float
    scale: float
    regulariser: float
    hidden: tuple[int, ...]

    def samples(self) -> Samples:
        """Return the rows of the table; strata are label and attribute values."""
        return _samples(self.table, self.aims)

    def network(self, samples: Samples) -> nn.Module:
        """Return a plain network with one logit."""
        return nn.Sequential(*layers(samples.columns["inputs"].shape[1], self.hidden, 1))

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return cross entropy, and per aim its relaxed gap plus a little cross entropy (A.1)."""
        logits, weight = outputs.squeeze(-1), batch["weight"]
        entropy = F.binary_cross_entropy_with_logits(logits, batch["label"], reduction="none")
        error = (entropy * weight).sum() / weight.sum()
        yes = relaxed(logits, self.slope)
        gaps = [unfairness(aim, yes, batch)[0] for aim in self.aims]
        return torch.stack(
            [error, *(self.scale * value + self.regulariser * error for value in gaps)]
        )

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return accuracy and 1 − gap of hard answers; NaN where too few values are present."""
        yes, weight = (outputs.squeeze(-1) > 0).float(), batch["weight"]
        accuracy = ((yes == batch["label"]) * weight).sum() / weight.sum()
        fair = []
        for aim in self.aims:
            value, defined = unfairness(aim, yes, batch)
            fair.append(torch.where(defined, 1 - value, torch.nan))
        return torch.stack([accuracy, *fair])

    def constant(self, batch: Batch) -> Tensor:
        """Return the logit of the classifier that always gives a client's commonest answer."""
        return torch.where(batch["label"].mean() > 0.5, 1.0, -1.0).reshape(1)

    def undefined(self, batch: Batch) -> Tensor:
        """Return which objectives compare attribute values that a batch lacks."""
        nothing = torch.zeros_like(batch["weight"])
        gaps = [~unfairness(aim, nothing, batch)[1] for aim in self.aims]
        return torch.stack([torch.zeros_like(gaps[0]), *gaps])

    def loss_units(self) -> tuple[float, ...]:
        """Return ln 2 and, per aim, 1/2, the largest relaxed gap.

        Cross entropy over ln 2 is at least the share of wrong answers, and near it for a model
        that is sure; a relaxed gap over 1/2 lies between 0 and 1 like a hard one.
        """
        return (math.log(2), *(0.5,) * len(self.aims))

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Standardise the numbers among the inputs by the training rows."""
        numeric = torch.from_numpy(self.table().numeric)
        if not numeric.any():
            return samples.columns
        inputs = samples.columns["inputs"]
        mean, spread = _mean_and_spread(inputs[torch.from_numpy(train)][:, numeric])
        return {**samples.columns, "inputs": _scaled(inputs, numeric, mean, spread)}

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return new inputs as they are learned from, scaled by training rows only."""
        numeric = torch.from_numpy(self.schema.numeric)
        if self.partition_spec is None or "prepare" in self.functions or not numeric.any():
            return super().prepared(inputs)
        mean, spread = torch.tensor(self.scales(), dtype=inputs.dtype).T
        return _scaled(inputs, numeric, mean, spread)

    def scales(self) -> tuple[tuple[float, float], ...]:
        """Return mean and spread of each number among the inputs, over all training rows."""
        numeric = torch.from_numpy(self.table().numeric)
        if not numeric.any():
            return ()
        inputs = self.samples().columns["inputs"][torch.from_numpy(self._train())][:, numeric]
        mean, spread = _mean_and_spread(inputs)
        return tuple(zip(mean.tolist(), spread.tolist(), strict=True))

    def counted(self, vectors: FloatArray) -> BoolArray:
        """Return which vectors are not perfectly fair in everything, as a constant answer is."""
        return np.asarray((vectors[:, 1:] <= 1 - TRIVIAL).any(axis=1))

    def strict_point(self) -> tuple[float, ...] | None:
        """Return 0.05 less than the constant classifier's accuracy, and 0.5 per aim."""
        share = float(self.table().label.mean())
        return (round(max(share, 1 - share) - 0.05, 6), *(0.5,) * len(self.aims))

    def features(self) -> tuple[str, ...]:
        """Return the names of the table's inputs."""
        return self.schema.features

    @property
    def schema(self) -> Schema:
        """Return the schema by which a file's columns become inputs, label and attribute values."""
        return self.table().schema

    def reading(self) -> Reading:
        """Return how new files are read."""
        return self.schema.reading

    def rows(self, columns: Columns) -> EncodedRows:
        """Return new rows, encoded like those of the table."""
        return self.schema.rows(columns)

    def attribute_values(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names that the table has for the values of each attribute."""
        names = self.table().attribute_values
        return {attribute: names[attribute] for attribute in super().attribute_values()}

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows as inputs, encoded like those of the table."""
        return self.schema.encode(columns)


def _mean_and_spread(learned: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and spread of the columns of training rows."""
    return learned.mean(0), learned.std(0).clamp(min=1e-6)


def _scaled(inputs: Tensor, numeric: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Return inputs with numbers measured from the mean in the spread.

    Args:
        inputs: Rows x inputs.
        numeric: Which inputs are numbers.
        mean: Mean of each number.
        spread: Spread of each number.
    """
    numbers = inputs.clone()
    numbers[:, numeric] = (inputs[:, numeric] - mean) / spread
    return numbers


@lru_cache(maxsize=8)
def _samples(source: Callable[[], Table], aims: tuple[Aim, ...]) -> Samples:
    return table_samples(source(), aims)


def table_samples(table: Table, aims: tuple[Aim, ...]) -> Samples:
    """Return the rows of a table as samples; strata are label and attribute values.

    Args:
        table: The table; it may have no rows.
        aims: Fairness objectives, of attributes of the table.
    """
    strata, needed = strata_of(table, aims)
    columns = {
        "inputs": torch.from_numpy(table.inputs),
        "label": torch.from_numpy(table.label).float(),
        **{aim.column: torch.from_numpy(table.sensitive[aim.attribute]) for aim in aims},
    }
    return Samples(columns, strata, needed, table.silos, table.silo_names, table.notes)


class FairnessSettings(Settings):
    """Settings of a fairness problem; defaults as in the thesis."""

    slope: float = setting(3.0, "steepness c of the relaxed answer", above=0)
    scale: float = setting(1.0, "factor of the relaxed gap (its range is half the hard one's)")
    regulariser: float = setting(0.1, "cross entropy added to a fairness loss", at_least=0)
    hidden: tuple[PositiveInt, ...] = setting((64, 32), "widths of the network's hidden layers")


P = TypeVar("P", bound=FairnessProblem)


def fairness_problem(
    name: str,
    title: str,
    table: Callable[[], Table],
    attributes: Mapping[str, int],
    metrics: Sequence[Metric],
    settings: FairnessSettings | None = None,
    family: Callable[..., P] = FairnessProblem,  # type: ignore[assignment]
) -> P:
    """Return a problem of accuracy, and of fairness for each attribute by each metric.

    Args:
        name: Name of the problem.
        title: Description in one line.
        table: Function that returns the table; it is called when a run needs the data.
        attributes: Sensitive attributes of the table, and their numbers of values.
        metrics: At least one of dp, eo and eodds.
        settings: Relaxation and network; by default the thesis'.
        family: Class of the problem.
    """
    if not metrics:
        raise UserError(f"problem {name}: metrics must name at least one of {', '.join(METRICS)}.")
    s = settings or FairnessSettings()
    aims = tuple(Aim(a, metric, count) for a, count in attributes.items() for metric in metrics)
    objectives = [Objective("accuracy", "share", "right answers")]
    for aim in aims:
        parts = [aim.attribute] * (len(attributes) > 1) + [aim.metric] * (len(metrics) > 1)
        meaning = f"1 - gap between groups of {aim.attribute}: {METRICS[aim.metric]}"
        objectives.append(Objective("-".join(["fairness", *parts]), "1 - gap", meaning))
    return family(
        name=name,
        title=title,
        objectives=tuple(objectives),
        reference_point=(0.0,) * len(objectives),
        attributes={column_of(attribute): count for attribute, count in attributes.items()},
        defaults={"learning_rate": 5e-3, "normalise": "units"},
        run_defaults={"preferences": "interior"},
        search={"iterations": 6, "candidates": 5, "local_steps": 50, "total_steps": 500},
        table=table,
        aims=aims,
        slope=s.slope,
        scale=s.scale,
        regulariser=s.regulariser,
        hidden=tuple(s.hidden),
    )


def _all_problems() -> Iterator[FairnessProblem]:
    """Pose every data set with every attribute and metric, two attributes, and two metrics."""
    for data, description in DATASETS.items():
        table = partial(dataset, data)
        choices: list[tuple[tuple[str, ...], tuple[Metric, ...]]] = []
        for count in (1, 2):
            for attributes in combinations(description.attributes, count):
                choices += [(attributes, (metric,)) for metric in METRICS]
        choices += [((attribute,), ("dp", "eo")) for attribute in description.attributes]
        for attributes, metrics in choices:
            senses = " and ".join(METRICS[metric] for metric in metrics)
            problem: FairnessProblem = fairness_problem(
                "-".join([data, *attributes, *metrics]),
                f"{description.title}; fair to {' and '.join(attributes)} by {senses}",
                table,
                {a: len(description.attributes[a]["groups"]) for a in attributes},
                metrics,
            )
            yield replace(problem, licence=description.licence)


PROBLEMS = tuple(_all_problems())
"""All problems of this module."""
