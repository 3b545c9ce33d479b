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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from comity.core.phases import Batch
from comity.core.rng import stream
from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.datasets.reading import Columns
from comity.datasets.schema import EncodedRows
from comity.errors import UserError, unknown
from comity.problems.base import Objective
from comity.problems.data import DataProblem, Samples
from comity.problems.networks import layers
from comity.problems.parity import FairLoss, commonest, parity_losses, parity_scores
from comity.problems.praffl_protocols import (
    LEVELS,
    PROTOCOLS,
    kept_inputs,
    paper_inputs,
    protocol_data,
    protocol_table,
)

HIDDEN = 4


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
        return protocol_data(self.data).samples

    def network(self, samples: Samples) -> nn.Module:
        """Return the paper's network for a single model."""
        return nn.Sequential(*layers(samples.columns["inputs"].shape[1], (HIDDEN,), 2))

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return cross entropy and the fairness loss; see `parity_losses`."""
        return parity_losses(outputs, batch, self.column, self.fair_loss)

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return accuracy and 1 − D; see `parity_scores`."""
        return parity_scores(outputs, batch, self.column, len(PROTOCOLS[self.data].values))

    def constant(self, batch: Batch) -> Tensor:
        """Return the logits of the classifier that always gives a client's commonest answer."""
        return commonest(batch)

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Scale numbers so that they lie between 0 and 1 on the training rows."""
        numbers = protocol_data(self.data).scaled
        inputs = samples.columns["inputs"].clone()
        learned = inputs[torch.from_numpy(train)][:, numbers]
        least, greatest = learned.amin(dim=0), learned.amax(dim=0)
        inputs[:, numbers] = (inputs[:, numbers] - least) / (greatest - least).clamp(min=1e-6)
        return {**samples.columns, "inputs": inputs}

    def features(self) -> tuple[str, ...]:
        """Return the names of the inputs; the attribute is the last."""
        protocol, table = PROTOCOLS[self.data], protocol_table(self.data)
        return (
            *(table.features[index] for index in kept_inputs(protocol, table)),
            protocol.attribute,
        )

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows as inputs, from the columns of the original file."""
        table = protocol_table(self.data)
        return paper_inputs(PROTOCOLS[self.data], table, table.encode(columns))

    def rows(self, columns: Columns) -> EncodedRows:
        """Return the same with label and attribute value, which is the last input."""
        inputs, label = self.encode(columns), protocol_table(self.data).schema.rows(columns).label
        value = inputs[:, -1].astype(np.int64)
        names = self.attribute_values()
        return EncodedRows(inputs, label, dict.fromkeys(names, value), names)

    def attribute_values(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the attribute's values."""
        protocol = PROTOCOLS[self.data]
        return {protocol.attribute: protocol.values}

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
        data, shares = protocol_data(self.data), portions(self.data, spec)
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
        licence=protocol.licence,
        classified=True,
        attributes={f"group:{protocol.attribute}": len(protocol.values)},
        defaults={
            "learning_rate": 5e-3,
            "batch_size": 128,
            "weight_decay": 1e-4,
            "normalise": "none",
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
