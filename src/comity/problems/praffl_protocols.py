"""The PraFFL paper's data: attribute, inputs, training rows and clients of each data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from comity.core.typing import BoolArray, Float32Array, IntArray
from comity.datasets.reading import PLAIN_CSV
from comity.datasets.roles import Roles
from comity.datasets.shipped import DATASETS, shipped
from comity.datasets.synthetic import TRAIN, synthetic
from comity.datasets.tables import Table, make_table
from comity.problems.data import Samples

Portions = tuple[tuple[float, float], ...]
"""Shares of the rows of the first and of the second kind, one pair per client."""
Inputs = Mapping[str, Float32Array]
"""Inputs of a table by their names."""

OLDEST_YOUTH = 25.8
"""Age a tenth of the way from the youngest (18) to the oldest (96) in COMPAS, in years."""
QUINTILES = (32, 36, 42, 51)
"""Highest ages of the first four fifths of the bank's customers."""

LEVELS: dict[str, Portions] = {
    "even": ((0.33, 0.33), (0.33, 0.33), (0.34, 0.34)),
    "strong": ((0.7, 0.1), (0.1, 0.8), (0.2, 0.1)),
}
"""Two of the three levels of unevenness in the paper's figure 9; the third is its usual one."""


@dataclass(frozen=True)
class PaperProtocol:
    """The paper's protocol on a data set: attribute, inputs, training rows and clients."""

    title: str
    table: Callable[[], Table]
    attribute: str
    """Name of the sensitive attribute."""
    values: tuple[str, ...]
    """Names of the attribute's values."""
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
    licence: str = ""
    """Licence of the data, so far as it is known."""


def _shipped(data: str, *features: str) -> Table:
    description = DATASETS[data]
    return make_table(
        data,
        shipped(data),
        Roles(
            description.label,
            description.attributes,
            description.positive,
            features,
            missing="category",
        ),
        PLAIN_CSV,
    )


PROTOCOLS = {
    "synthetic": PaperProtocol(
        title="Synthetic people of the PraFFL paper: two Gaussians, two groups",
        table=synthetic,
        attribute="z",
        values=("0", "1"),
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
        values=(
            *("male, not African-American", "male, African-American"),
            *("female, not African-American", "female, African-American"),
        ),
        value=lambda of: 2 * of["sex=Female"] + of["race=African-American"],
        left_out=("sex", "race", "c_charge_desc=missing"),
        train=5_049,
        first=lambda of: of["age"] > OLDEST_YOUTH,
        portions=((1.0, 0.0), (0.0, 1.0)),
        graded=False,
        notes=("29 missing charge descriptions are all zeros, as in the paper's code",),
        licence=DATASETS["compas"].licence,
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
        values=("up to 32", "33 to 36", "37 to 42", "43 to 51", "over 51"),
        value=lambda of: np.searchsorted(QUINTILES, of["age"]),
        left_out=("age",),
        train=31_647,
        first=lambda of: of["loan=no"] == 1,
        portions=((0.5, 0.2), (0.1, 0.6), (0.4, 0.2)),
        shuffled=True,
        licence=DATASETS["bank-marketing"].licence,
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
        values=("female", "male"),
        value=lambda of: of["sex=Male"],
        left_out=("sex",),
        train=32_561,  # the official training part
        first=lambda of: of["workclass=Private"] == 1,
        portions=((0.8, 0.2), (0.2, 0.8)),
        graded=False,
        licence=DATASETS["adult"].licence,
    ),
}


class ProtocolData(NamedTuple):
    """A data set before its rows are distributed."""

    samples: Samples
    scaled: Tensor
    """Which inputs are numbers to be scaled."""
    first: BoolArray
    """Which rows are of the first kind."""
    train: IntArray
    test: IntArray


@lru_cache(maxsize=len(PROTOCOLS))
def protocol_table(data: str) -> Table:
    """Return the table of a data set, by its name in `PROTOCOLS`."""
    return PROTOCOLS[data].table()


@lru_cache(maxsize=len(PROTOCOLS))
def protocol_data(data: str) -> ProtocolData:
    """Return a data set, by its name in `PROTOCOLS`."""
    protocol, table = PROTOCOLS[data], protocol_table(data)
    inputs = paper_inputs(protocol, table, table.inputs)
    value = inputs[:, -1].astype(np.int64)
    numbers = [*table.numeric[kept_inputs(protocol, table)] & protocol.scaled, False]
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
    return ProtocolData(samples, torch.tensor(numbers), first, train, test)


def kept_inputs(protocol: PaperProtocol, table: Table) -> list[int]:
    """Return the table's inputs that are learned from."""
    return [
        index
        for index, name in enumerate(table.features)
        if not {name, name.partition("=")[0]} & {*protocol.left_out}
    ]


def paper_inputs(protocol: PaperProtocol, table: Table, inputs: Float32Array) -> Float32Array:
    """Return the paper's inputs of a table's: some are left out, the attribute comes last."""
    value = protocol.value(dict(zip(table.features, inputs.T, strict=True)))
    columns = [inputs[:, kept_inputs(protocol, table)], value[:, None]]
    return np.concatenate(columns, axis=1, dtype=np.float32)
