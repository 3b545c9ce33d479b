"""Accuracy against demographic parity, as the PraFFL paper (2024) has it.

Data, clients, losses and the measure of unfairness are the paper's, and differ from those of
`comity.problems.fairness`: the network has two logits, unfairness is
D = max over attribute values z of |P(yes | z) − P(yes)|, the attribute is an input, and the data
set decides which rows are for testing. Each problem comes twice, with the printed fairness loss
and, ending in ``-cov2``, with the squared covariance that the printed one is meant to be.

Clients differ in how many rows of two kinds they hold (the partition ``paper``); ``even`` or
``iid`` gives all the same share of both, ``strong`` is the most uneven of the paper's levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.columns import Columns
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.datasets.shipped import DATASETS, shipped
from comity.datasets.synthetic import TRAIN, synthetic
from comity.datasets.tables import Table, make_table
from comity.errors import UserError, unknown
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples
from comity.problems.networks import layers
from comity.problems.parity import FairLoss, commonest, parity_losses, parity_scores

Portions = tuple[tuple[float, float], ...]
"""Shares of the rows of the first and of the second kind, one pair per client."""
Inputs = Mapping[str, Float32Array]
"""Inputs of a table by their names."""

HIDDEN = 4
OLDEST_YOUTH = 25.8
"""Age a tenth of the way from the youngest (18) to the oldest (96) in COMPAS, in years."""
QUINTILES = (32, 36, 42, 51)
"""Highest ages of the first four fifths of the bank's customers."""

LEVELS: dict[str, Portions] = {
    "even": ((0.33, 0.33), (0.33, 0.33), (0.34, 0.34)),
    "strong": ((0.7, 0.1), (0.1, 0.8), (0.2, 0.1)),
}
"""Two of the three levels of unevenness in the paper's figure 9; the third is its usual one."""


# -- data ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaperProtocol:
    """The paper's protocol on a data set: attribute, inputs, training rows and clients."""

    title: str
    table: Callable[[], Table]
    attribute: str
    """Name of the sensitive attribute."""
    values: int
    """Number of the attribute's values."""
    value: Callable[[Inputs], NDArray[np.generic]]
    """Attribute value z of each row, 0, 1, …; it becomes the last input."""
    left_out: tuple[str, ...]
    """Columns, or single inputs, that only serve to compute the attribute, or are not used."""
    train: int
    """Number of rows for training, the first ones; all others are for testing."""
    first: Callable[[Inputs], BoolArray]
    """Rows that are of the first kind when clients get their portions."""
    portions: Portions
    graded: bool = True
    """Whether other portions make sense, or clients are fixed by the data."""
    shuffled: bool = False
    """Whether rows are shuffled (always alike) before the first ones are taken."""
    scaled: bool = True
    """Whether numbers are scaled to lie between 0 and 1 on training rows."""
    notes: tuple[str, ...] = ()
    """Remarks on the data, in place of the table's own."""


def _shipped(data: str, *features: str) -> Table:
    description = DATASETS[data]
    return make_table(
        data,
        shipped(data),
        label=description.label,
        positive=description.positive,
        sensitive=description.attributes,
        features=features,
        missing="category",
    )


PROTOCOLS = {
    "synthetic": PaperProtocol(
        title="Synthetic people of the PraFFL paper: two Gaussians, two groups",
        table=synthetic,
        attribute="z",
        values=2,
        value=lambda of: of["z"],
        left_out=("z",),
        train=TRAIN,
        first=lambda of: of["z"] == 1,
        portions=((0.5, 0.2), (0.3, 0.4), (0.2, 0.4)),
        scaled=False,
    ),
    "compas": PaperProtocol(
        title="COMPAS as in the PraFFL paper: who does not reoffend, four groups by sex and race",
        table=partial(
            _shipped,
            *("compas", "sex", "age", "age_cat", "race", "juv_fel_count", "juv_misd_count"),
            *("juv_other_count", "priors_count", "c_charge_degree", "c_charge_desc"),
        ),
        attribute="sex-race",
        values=4,
        value=lambda of: 2 * of["sex=Female"] + of["race=African-American"],
        left_out=("sex", "race", "c_charge_desc=missing"),
        train=5_049,
        first=lambda of: of["age"] > OLDEST_YOUTH,
        portions=((1.0, 0.0), (0.0, 1.0)),
        graded=False,
        notes=("29 missing charge descriptions are all zeros, as in the paper's code",),
    ),
    "bank": PaperProtocol(
        title="Bank Marketing as in the PraFFL paper: who takes a deposit, five groups by age",
        table=partial(
            _shipped,
            *("bank-marketing", "age", "job", "marital", "education", "default", "balance"),
            *("housing", "loan", "contact", "duration", "campaign", "pdays", "previous"),
            "poutcome",
        ),
        attribute="age",
        values=5,
        value=lambda of: np.searchsorted(QUINTILES, of["age"]),
        left_out=("age",),
        train=31_647,
        first=lambda of: of["loan=no"] == 1,
        portions=((0.5, 0.2), (0.1, 0.6), (0.4, 0.2)),
        shuffled=True,
    ),
    "adult": PaperProtocol(
        title="Adult as in the PraFFL paper: who earns more than 50,000 dollars, women and men",
        table=partial(
            _shipped,
            *("adult", "age", "workclass", "fnlwgt", "education", "education-num"),
            *("marital-status", "occupation", "relationship", "race", "sex", "capital-gain"),
            *("capital-loss", "hours-per-week", "native-country"),
        ),
        attribute="sex",
        values=2,
        value=lambda of: of["sex=Male"],
        left_out=("sex",),
        train=32_561,  # the official training part
        first=lambda of: of["workclass=Private"] == 1,
        portions=((0.8, 0.2), (0.2, 0.8)),
        graded=False,
    ),
}


class _Data(NamedTuple):
    """A data set before its rows are distributed."""

    samples: Samples
    scaled: Tensor
    """Which inputs are numbers to be scaled."""
    first: BoolArray
    """Which rows are of the first kind."""
    train: IntArray
    test: IntArray


@lru_cache(maxsize=len(PROTOCOLS))
def _table(data: str) -> Table:
    return PROTOCOLS[data].table()


@lru_cache(maxsize=len(PROTOCOLS))
def _data(data: str) -> _Data:
    protocol, table = PROTOCOLS[data], _table(data)
    inputs = _inputs(protocol, table, table.inputs)
    value = inputs[:, -1].astype(np.int64)
    numbers = [*table.numeric[_kept(protocol, table)] & protocol.scaled, False]
    samples = Samples(
        columns={
            "inputs": torch.from_numpy(inputs),
            "label": torch.from_numpy(table.label).float(),
            f"group:{protocol.attribute}": torch.from_numpy(value),
        },
        strata=2 * value + table.label,
        needed={},
        notes=protocol.notes or table.notes,
    )
    order = np.arange(len(value))
    if protocol.shuffled:
        order = np.random.default_rng(1).permutation(order)
    first = protocol.first(dict(zip(table.features, table.inputs.T, strict=True)))
    train, test = order[: protocol.train], order[protocol.train :]
    return _Data(samples, torch.tensor(numbers), first, train, test)


def _kept(protocol: PaperProtocol, table: Table) -> list[int]:
    """Return the table's inputs that are learned from."""
    return [
        index
        for index, name in enumerate(table.features)
        if not {name, name.partition("=")[0]} & {*protocol.left_out}
    ]


def _inputs(protocol: PaperProtocol, table: Table, inputs: Float32Array) -> Float32Array:
    """Return the paper's inputs of a table's: some are left out, the attribute comes last."""
    value = protocol.value(dict(zip(table.features, inputs.T, strict=True)))
    columns = [inputs[:, _kept(protocol, table)], value[:, None]]
    return np.concatenate(columns, axis=1, dtype=np.float32)


# -- clients -------------------------------------------------------------------------------


def portions(data: str, spec: PartitionSpec) -> FloatArray:
    """Return each client's share of the rows of either kind (clients x 2).

    The paper prints shares of three clients. For other numbers the share of the first kind falls
    evenly from 3 / (2 K) to 1 / (2 K) over the K clients, and that of the second rises likewise.
    """
    protocol = PROTOCOLS[data]
    name, clients = f"praffl-{data}", spec.clients
    levels = {"paper": protocol.portions, **(LEVELS if protocol.graded else {})}
    partition = "even" if spec.partition == "iid" else spec.partition
    if partition not in {*levels, "even"}:
        raise unknown(f"partition of {name}", spec.partition, {*levels, "even", "iid"})
    if spec.sizes != "equal":
        raise UserError(
            f"sizes: '{spec.sizes}' means nothing for {name}, where the partition says who holds "
            "how much; say sizes = 'equal'."
        )
    if partition in levels and len(levels[partition]) == clients:
        return np.array(levels[partition])
    if partition == "even":
        return np.full((clients, 2), 1 / clients)
    if partition == "paper" and protocol.graded:
        falling = (1.5 - np.linspace(0, 1, clients)) / clients if clients > 1 else np.ones(1)
        return np.stack([falling, falling[::-1]], axis=1)
    count = len(levels[partition])
    raise UserError(
        f"partition '{partition}' of {name} has {count} clients, got {clients}; say clients = "
        f"{count}, or partition = 'even' for any number."
    )


def _cut(rows: IntArray, first: BoolArray, shares: FloatArray) -> list[IntArray]:
    """Return each client's rows of the first and of the second kind, by their shares."""
    piles = []
    for kind, share in zip((rows[first[rows]], rows[~first[rows]]), shares.T, strict=True):
        ends = np.floor(np.cumsum(share)[:-1] * len(kind) + 1e-6).astype(np.int64)
        piles.append(np.split(kind, ends))
    return [np.concatenate(pile) for pile in zip(*piles, strict=True)]


# -- problems ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PraFFLProblem(DataProblem):
    """Accuracy and demographic parity on one of the paper's data sets."""

    data: str
    """Name of the data set in `PROTOCOLS`."""
    fair_loss: FairLoss

    @property
    def column(self) -> str:
        """Column of the samples with the attribute's values."""
        return f"group:{PROTOCOLS[self.data].attribute}"

    def samples(self) -> Samples:
        """Return the rows of the data set; strata are label and attribute value."""
        return _data(self.data).samples

    def network(self, samples: Samples) -> nn.Module:
        """Return the paper's network for a single model."""
        return nn.Sequential(*layers(samples.columns["inputs"].shape[1], (HIDDEN,), 2))

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return cross entropy and the fairness loss; see `parity_losses`."""
        return parity_losses(outputs, batch, self.column, self.fair_loss)

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return accuracy and 1 − D; see `parity_scores`."""
        return parity_scores(outputs, batch, self.column, PROTOCOLS[self.data].values)

    def constant(self, batch: Batch) -> Tensor:
        """Return the logits of the classifier that always gives a client's commonest answer."""
        return commonest(batch)

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Scale numbers so that they lie between 0 and 1 on the training rows."""
        numbers = _data(self.data).scaled
        inputs = samples.columns["inputs"].clone()
        learned = inputs[torch.from_numpy(train)][:, numbers]
        least, greatest = learned.amin(dim=0), learned.amax(dim=0)
        inputs[:, numbers] = (inputs[:, numbers] - least) / (greatest - least).clamp(min=1e-6)
        return {**samples.columns, "inputs": inputs}

    def features(self) -> tuple[str, ...]:
        """Return the names of the inputs; the attribute is the last."""
        protocol, table = PROTOCOLS[self.data], _table(self.data)
        return (*(table.features[index] for index in _kept(protocol, table)), protocol.attribute)

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows as inputs, from the columns of the original file."""
        table = _table(self.data)
        return _inputs(PROTOCOLS[self.data], table, table.encode(columns))

    def partitioned(
        self, clients: int, seed: int, partition: str, sizes: str, split: str = "paper"
    ) -> DataProblem:
        """Return the problem as clients have it; its test rows are the paper's."""
        if split == "paper":
            return super().partitioned(clients, seed, partition, sizes, split)
        raise UserError(f"split_ratio = {split} means nothing for {self.name}; say paper.")

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Distribute training and test rows of either kind by the clients' `portions`.

        A tenth of each client's training rows, drawn at random, is for validation.
        """
        data, shares = _data(self.data), portions(self.data, spec)
        rng = stream(spec.seed, "praffl-partition")
        train = _cut(rng.permutation(data.train), data.first, shares)
        test = _cut(rng.permutation(data.test), data.first, shares)
        clients = []
        for client, (rows, tested) in enumerate(zip(train, test, strict=True)):
            rows = rng.permutation(rows)  # so far the first kind comes first
            learned = len(rows) * 9 // 10
            if not learned or not len(tested):
                raise UserError(
                    f"partition '{spec.partition}': client {client} gets {len(rows)} rows to train "
                    f"and validate and {len(tested)} to test, too few; have fewer clients."
                )
            parts = rows[:learned], rows[learned:], tested
            clients.append(ClientRows(*map(np.sort, parts)))
        return clients


def praffl_problem(data: str, fair_loss: FairLoss = "printed") -> PraFFLProblem:
    """Return one of the paper's problems.

    Args:
        data: Name of the data set in `PROTOCOLS`.
        fair_loss: ``printed``, or ``cov2`` for the squared covariance.
    """
    protocol = PROTOCOLS[data]
    printed = fair_loss == "printed"
    title = protocol.title
    return PraFFLProblem(
        name=f"praffl-{data}" if printed else f"praffl-{data}-{fair_loss}",
        title=title if printed else f"{title}; squared covariance as fairness loss",
        objectives=(
            Objective("accuracy", "share", "right answers"),
            Objective(
                "fairness",
                "1 - D",
                f"1 - largest distance of a group of {protocol.attribute} from all in how often "
                "the answer is yes",
            ),
        ),
        reference_point=(0.0, 0.0),
        classified=True,
        attributes={f"group:{protocol.attribute}": protocol.values},
        defaults={
            "learning_rate": 5e-3,
            "batch_size": 128,
            "weight_decay": 1e-4,
            "normalise": False,
            "local_epochs": 30,
        },
        run_defaults={
            "clients": len(protocol.portions),
            "rounds": 10,
            "partition": "paper",
            "split_ratio": "paper",
            "keep_scope": "federation",
        },
        data=data,
        fair_loss=fair_loss,
    )


PROBLEMS = tuple(praffl_problem(data, loss) for data in PROTOCOLS for loss in get_args(FairLoss))
"""All problems of this module."""
