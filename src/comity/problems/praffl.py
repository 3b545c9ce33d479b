"""Accuracy against demographic parity, as the PraFFL paper (2024) has it.

Data, clients, losses and the measure of unfairness are the paper's, and differ from those of
`comity.problems.fairness`: the network has two logits, unfairness is
D = max over groups z of |P(yes | z) − P(yes)|, the group is an input, and whom a row belongs to
and what is for testing is part of the data set. Each problem comes twice, with the printed fairness
loss and, ending in ``-cov2``, with the squared covariance that the printed one is meant to be.

Clients differ in how many rows of two kinds they hold (the partition ``paper``); ``even`` (also
called ``iid``) gives everybody the same share of both, and where the kinds are dealt by degrees,
``strong`` is the most uneven of the paper's three levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from comity.core.rng import stream
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.columns import Columns
from comity.datasets.partition import Share
from comity.datasets.shipped import DATASETS, shipped
from comity.datasets.synthetic import TRAIN, synthetic
from comity.datasets.tables import Table, make_table
from comity.errors import UserError, unknown
from comity.problems.base import Objective, register
from comity.problems.data import DataProblem, PartitionSpec, Samples
from comity.problems.networks import layers
from comity.problems.parity import FairLoss, Losses, Scores, commonest

Portions = tuple[tuple[float, float], ...]
"""For each client, its share of the rows of the first and of the second kind."""
Inputs = Mapping[str, Float32Array]
"""A table's inputs by their names."""

HIDDEN = 4
OLDEST_YOUTH = 25.8
"""A tenth of the way from the youngest (18) to the oldest (96) in COMPAS, in years."""
QUINTILES = (32, 36, 42, 51)
"""The highest ages of the first four fifths of the bank's customers."""

LEVELS: dict[str, Portions] = {
    "even": ((0.33, 0.33), (0.33, 0.33), (0.34, 0.34)),
    "strong": ((0.7, 0.1), (0.1, 0.8), (0.2, 0.1)),
}
"""Two of the three levels of unevenness in the paper's figure 9; the third is its usual one."""


# -- data ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """What the paper makes of a data set."""

    title: str
    table: Callable[[], Table]
    attribute: str
    groups: int
    group: Callable[[Inputs], NDArray[np.generic]]
    """The group z of each row, 0, 1, …; it becomes the last input."""
    left_out: tuple[str, ...]
    """Columns, or single inputs, that are there only to tell the group (or not at all)."""
    train: int
    """How many rows are for training, the first ones; all others are for testing."""
    first: Callable[[Inputs], BoolArray]
    """Which rows are of the first kind when clients get their portions."""
    portions: Portions
    graded: bool = True
    """Whether other portions make sense, or clients are what they are."""
    shuffled: bool = False
    """Whether rows are shuffled (always alike) before the first ones are taken."""
    scaled: bool = True
    """Whether numbers are scaled to lie between 0 and 1 on training rows."""
    notes: tuple[str, ...] = ()
    """What was done to the data, where the table's own notes do not say it."""


def _shipped(data: str, *features: str) -> Table:
    what = DATASETS[data]
    return make_table(
        data,
        shipped(data),
        label=what.label,
        positive=what.positive,
        sensitive=what.attributes,
        features=features,
        missing="category",
    )


SOURCES = {
    "synthetic": Source(
        title="Synthetic people of the PraFFL paper: two Gaussians, two groups",
        table=synthetic,
        attribute="z",
        groups=2,
        group=lambda of: of["z"],
        left_out=("z",),
        train=TRAIN,
        first=lambda of: of["z"] == 1,
        portions=((0.5, 0.2), (0.3, 0.4), (0.2, 0.4)),
        scaled=False,
    ),
    "compas": Source(
        title="COMPAS as in the PraFFL paper: who does not reoffend, four groups by sex and race",
        table=partial(
            _shipped,
            *("compas", "sex", "age", "age_cat", "race", "juv_fel_count", "juv_misd_count"),
            *("juv_other_count", "priors_count", "c_charge_degree", "c_charge_desc"),
        ),
        attribute="sex-race",
        groups=4,
        group=lambda of: 2 * of["sex=Female"] + of["race=African-American"],
        left_out=("sex", "race", "c_charge_desc=missing"),
        train=5_049,
        first=lambda of: of["age"] > OLDEST_YOUTH,
        portions=((1.0, 0.0), (0.0, 1.0)),
        graded=False,
        notes=("29 missing charge descriptions are all zeros, as in the paper's code",),
    ),
    "bank": Source(
        title="Bank Marketing as in the PraFFL paper: who takes a deposit, five groups by age",
        table=partial(
            _shipped,
            *("bank-marketing", "age", "job", "marital", "education", "default", "balance"),
            *("housing", "loan", "contact", "duration", "campaign", "pdays", "previous"),
            "poutcome",
        ),
        attribute="age",
        groups=5,
        group=lambda of: np.searchsorted(QUINTILES, of["age"]),
        left_out=("age",),
        train=31_647,
        first=lambda of: of["loan=no"] == 1,
        portions=((0.5, 0.2), (0.1, 0.6), (0.4, 0.2)),
        shuffled=True,
    ),
    "adult": Source(
        title="Adult as in the PraFFL paper: who earns more than 50,000 dollars, women and men",
        table=partial(
            _shipped,
            *("adult", "age", "workclass", "fnlwgt", "education", "education-num"),
            *("marital-status", "occupation", "relationship", "race", "sex", "capital-gain"),
            *("capital-loss", "hours-per-week", "native-country"),
        ),
        attribute="sex",
        groups=2,
        group=lambda of: of["sex=Male"],
        left_out=("sex",),
        train=32_561,  # the official training part
        first=lambda of: of["workclass=Private"] == 1,
        portions=((0.8, 0.2), (0.2, 0.8)),
        graded=False,
    ),
}


class _People(NamedTuple):
    """A data set, ready to be dealt out."""

    samples: Samples
    scaled: Tensor
    """Which inputs are numbers to be scaled."""
    first: BoolArray
    train: IntArray
    test: IntArray


@lru_cache(maxsize=len(SOURCES))
def _table(data: str) -> Table:
    return SOURCES[data].table()


@lru_cache(maxsize=len(SOURCES))
def _people(data: str) -> _People:
    source, table = SOURCES[data], _table(data)
    inputs = _inputs(source, table, table.inputs)
    group = inputs[:, -1].astype(np.int64)
    numbers = [*table.numeric[_kept(source, table)] & source.scaled, False]
    samples = Samples(
        columns={
            "inputs": torch.from_numpy(inputs),
            "label": torch.from_numpy(table.label).float(),
            f"group:{source.attribute}": torch.from_numpy(group),
        },
        cells=2 * group + table.label,
        needed={},
        notes=source.notes or table.notes,
    )
    order = np.arange(len(group))
    if source.shuffled:
        order = np.random.default_rng(1).permutation(order)
    first = source.first(dict(zip(table.features, table.inputs.T, strict=True)))
    return _People(
        samples, torch.tensor(numbers), first, order[: source.train], order[source.train :]
    )


def _kept(source: Source, table: Table) -> list[int]:
    """The table's inputs that are learned from."""
    return [
        place
        for place, name in enumerate(table.features)
        if not {name, name.partition("=")[0]} & {*source.left_out}
    ]


def _inputs(source: Source, table: Table, inputs: Float32Array) -> Float32Array:
    """The paper's inputs of a table's: some are left out, the group comes last."""
    group = source.group(dict(zip(table.features, inputs.T, strict=True)))
    columns = [inputs[:, _kept(source, table)], group[:, None]]
    return np.concatenate(columns, axis=1, dtype=np.float32)


@dataclass(frozen=True)
class People:
    """The samples of a data set, by its name here."""

    data: str

    def __call__(self) -> Samples:
        return _people(self.data).samples


@dataclass(frozen=True)
class Encoded:
    """New people as inputs, from the columns of the original file."""

    data: str

    @property
    def features(self) -> tuple[str, ...]:
        source, table = SOURCES[self.data], _table(self.data)
        return (*(table.features[place] for place in _kept(source, table)), source.attribute)

    def __call__(self, columns: Columns) -> Float32Array:
        table = _table(self.data)
        return _inputs(SOURCES[self.data], table, table.encode(columns))


@dataclass(frozen=True)
class Scaled:
    """Numbers measured from the training rows' least to their greatest."""

    data: str

    def __call__(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        numbers = _people(self.data).scaled
        inputs = samples.columns["inputs"].clone()
        seen = inputs[torch.from_numpy(train)][:, numbers]
        least, greatest = seen.amin(dim=0), seen.amax(dim=0)
        inputs[:, numbers] = (inputs[:, numbers] - least) / (greatest - least).clamp(min=1e-6)
        return {**samples.columns, "inputs": inputs}


def network(samples: Samples) -> nn.Module:
    """The paper's network for a single model."""
    return nn.Sequential(*layers(samples.columns["inputs"].shape[1], (HIDDEN,), 2))


# -- clients -------------------------------------------------------------------------------


def portions(data: str, deal: PartitionSpec) -> FloatArray:
    """Each client's share of the rows of either kind.

    The paper prints shares of three clients. For other numbers ``paper`` lets the share of the
    first kind fall evenly from 3 / (2 K) to 1 / (2 K) over the K clients, and that of the second
    rise likewise, so that both sum to one.
    """
    source = SOURCES[data]
    about, clients = f"praffl-{data}", deal.clients
    levels = {"paper": source.portions, **(LEVELS if source.graded else {})}
    partition = "even" if deal.partition == "iid" else deal.partition
    if partition not in {*levels, "even"}:
        raise unknown(f"partition of {about}", deal.partition, {*levels, "even", "iid"})
    if deal.sizes != "equal":
        raise UserError(
            f"sizes: '{deal.sizes}' means nothing for {about}, where the partition says who holds "
            "how much; say sizes = 'equal'."
        )
    if partition in levels and len(levels[partition]) == clients:
        return np.array(levels[partition])
    if partition == "even":
        return np.full((clients, 2), 1 / clients)
    if partition == "paper" and source.graded:
        falling = (1.5 - np.linspace(0, 1, clients)) / clients if clients > 1 else np.ones(1)
        return np.stack([falling, falling[::-1]], axis=1)
    count = len(levels[partition])
    raise UserError(
        f"partition '{partition}' of {about} has {count} clients, got {clients}; say clients = "
        f"{count}, or partition = 'even' for any number."
    )


@dataclass(frozen=True)
class Dealer:
    """Training and test rows of either kind, dealt by the clients' portions.

    A tenth of what each client has for training, drawn at random, is for validation.
    """

    data: str

    def __call__(self, samples: Samples, deal: PartitionSpec) -> list[Share]:
        people, each = _people(self.data), portions(self.data, deal)
        rng = stream(deal.seed, "praffl-partition")
        train = _cut(rng.permutation(people.train), people.first, each)
        test = _cut(rng.permutation(people.test), people.first, each)
        found = []
        for client, (own, tested) in enumerate(zip(train, test, strict=True)):
            own = rng.permutation(own)  # so far the first kind comes first
            learned = len(own) * 9 // 10
            if not learned or not len(tested):
                raise UserError(
                    f"partition '{deal.partition}': client {client} gets {len(own)} rows to train "
                    f"and validate and {len(tested)} to test, too few; have fewer clients."
                )
            parts = own[:learned], own[learned:], tested
            found.append(Share(*map(np.sort, parts)))
        return found


def _cut(rows: IntArray, first: BoolArray, each: FloatArray) -> list[IntArray]:
    """The rows that each client gets, of the first and of the second kind."""
    piles = []
    for kind, share in zip((rows[first[rows]], rows[~first[rows]]), each.T, strict=True):
        ends = np.floor(np.cumsum(share)[:-1] * len(kind) + 1e-6).astype(np.int64)
        piles.append(np.split(kind, ends))
    return [np.concatenate(pile) for pile in zip(*piles, strict=True)]


# -- problems ------------------------------------------------------------------------------


def praffl_problem(data: str, fair_loss: FairLoss = "printed") -> DataProblem:
    """One of the paper's problems, with the printed fairness loss or the squared covariance."""
    source = SOURCES[data]
    column = f"group:{source.attribute}"
    printed = fair_loss == "printed"
    return DataProblem(
        name=f"praffl-{data}" if printed else f"praffl-{data}-{fair_loss}",
        title=source.title if printed else f"{source.title}; squared covariance as fairness loss",
        objectives=(
            Objective("accuracy", "share", "right answers"),
            Objective(
                "fairness",
                "1 - D",
                f"1 - largest distance of a group of {source.attribute} from all in how often the "
                "answer is yes",
            ),
        ),
        reference_point=(0.0, 0.0),
        samples=People(data),
        network=network,
        losses=Losses(column, fair_loss),
        scores=Scores(column, source.groups),
        constant=commonest,
        prepare=Scaled(data),
        classified=True,
        groups={column: source.groups},
        encode=Encoded(data),
        partitioner=Dealer(data),
        defaults={
            "learning_rate": 5e-3,
            "batch_size": 128,
            "weight_decay": 1e-4,
            "normalise": False,
            "local_epochs": 30,
        },
        run_defaults={
            "clients": len(source.portions),
            "rounds": 10,
            "partition": "paper",
            "keep_scope": "federation",
        },
    )


for _data in SOURCES:
    register(praffl_problem(_data))
    register(praffl_problem(_data, "cov2"))
