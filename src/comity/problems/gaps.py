"""Gaps between people of different attribute values, and rows by what gaps need.

A gap is the largest difference between an attribute's values in how often the answer is yes: among
all (demographic parity, ``dp``), among those whose label is yes (equal opportunity, ``eo``), or the
larger of the gaps among the yeses and among the noes (equalised odds, ``eodds``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from comity.core.phases import Batch
from comity.core.typing import BoolArray, IntArray
from comity.problems.data import GROUP

Metric = Literal["dp", "eo", "eodds"]
METRICS: dict[Metric, str] = {
    "dp": "demographic parity",
    "eo": "equal opportunity",
    "eodds": "equalised odds",
}
_LABELS: dict[Metric, tuple[int | None, ...]] = {"dp": (None,), "eo": (1,), "eodds": (1, 0)}
"""Labels among which a metric compares attribute values; None: among all."""


def column_of(attribute: str) -> str:
    """Return the column of an attribute's values."""
    return f"{GROUP}{attribute}"


@dataclass(frozen=True)
class Aim:
    """One fairness objective: an attribute and a metric."""

    attribute: str
    metric: Metric
    values: int
    """Number of the attribute's values."""

    @property
    def column(self) -> str:
        """Column of the samples with the attribute's values."""
        return column_of(self.attribute)


# -- gaps of one client --------------------------------------------------------------------


def relaxed(logits: Tensor, slope: float) -> Tensor:
    """Return tanh(c · max(0, 2f − 1)) / 2 + 1/2 with f = sigmoid(logit): a yes with a gradient.

    Args:
        logits: Logits of yes.
        slope: Steepness c.
    """
    return torch.tanh(slope * torch.relu(2 * torch.sigmoid(logits) - 1)) / 2 + 0.5


def gap(answers: Tensor, value: Tensor, weight: Tensor, values: int) -> tuple[Tensor, Tensor]:
    """Return the largest difference between mean answers, and whether two values are present.

    Args:
        answers: Answer per sample, from 0 for no to 1 for yes.
        value: Attribute value per sample, 0, 1, …
        weight: Weight per sample.
        values: Number of attribute values.
    """
    member = (value.unsqueeze(-1) == torch.arange(values)) * weight.unsqueeze(-1)
    size = member.sum(dim=0)
    present = size > 0
    rate = (member * answers.unsqueeze(-1)).sum(dim=0) / torch.where(present, size, 1.0)
    infinity = torch.tensor(torch.inf)
    highest = torch.where(present, rate, -infinity).amax()
    lowest = torch.where(present, rate, infinity).amin()
    defined = present.sum() > 1
    return torch.where(defined, highest - lowest, 0.0), defined


def unfairness(aim: Aim, answers: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the gap of an aim, and whether all of it is defined."""
    gaps, defined = [], []
    for label in _LABELS[aim.metric]:
        weight = batch["weight"]
        if label is not None:
            weight = weight * (batch["label"] == label)
        difference, known = gap(answers, batch[aim.column], weight, aim.values)
        gaps.append(difference)
        defined.append(known)
    return torch.stack(gaps).amax(), torch.stack(defined).all()


# -- rows ----------------------------------------------------------------------------------


class People(Protocol):
    """Rows with a label of yes or no and sensitive attributes, as a `Table` has them."""

    @property
    def label(self) -> IntArray: ...
    @property
    def sensitive(self) -> Mapping[str, IntArray]: ...
    @property
    def attribute_values(self) -> Mapping[str, tuple[str, ...]]: ...


def strata_of(
    people: People, aims: Sequence[Aim]
) -> tuple[IntArray, dict[int, tuple[str, IntArray]]]:
    """Return the stratum of each row, of label and attribute values, and the needed strata.

    Args:
        people: The rows; there may be none.
        aims: Fairness objectives, of attributes of the people.
    """
    attributes = list(dict.fromkeys(aim.attribute for aim in aims))
    codes = [people.sensitive[attribute] for attribute in attributes]
    sizes = [2, *(len(people.attribute_values[attribute]) for attribute in attributes)]
    strata: IntArray = np.ravel_multi_index([people.label, *codes], sizes)
    needed: dict[int, tuple[str, IntArray]] = {}
    for name, rows in needs(people, aims):
        # the stratum in which most of those people are represents all of them
        stratum = int(np.bincount(strata[rows], minlength=math.prod(sizes)).argmax())
        needed.setdefault(stratum, (name, np.unique(strata[rows])))
    return strata, needed


def needs(people: People, aims: Sequence[Aim]) -> Iterator[tuple[str, BoolArray]]:
    """Yield the people without whom a score is undefined: their name, and which rows they are."""
    for aim in aims:
        for label in _LABELS[aim.metric]:
            for value, name in enumerate(people.attribute_values[aim.attribute]):
                rows: BoolArray = people.sensitive[aim.attribute] == value
                if label is not None:
                    rows &= people.label == label
                suffix = "" if label is None else f" with label {('no', 'yes')[label]}"
                yield f"{aim.attribute} = {name}{suffix}", rows
