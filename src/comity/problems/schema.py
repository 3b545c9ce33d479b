"""Fairness problems on a public schema: what a table means, without the rows of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import FiniteFloat, PositiveFloat
from torch import Tensor

from comity.core.typing import BoolArray, FloatArray, IntArray
from comity.datasets.attributes import MOST_GROUPS, declared_attribute
from comity.datasets.columns import read_columns, text_of
from comity.datasets.encoding import plain_text
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.datasets.reading import Reading, reading_of
from comity.datasets.scales import federated_scales, scale_statistics
from comity.datasets.schema import Column, Schema
from comity.datasets.tables import Table, declared_table
from comity.errors import UserError
from comity.problems.data import Samples
from comity.problems.fairness import (
    FairnessProblem,
    FairnessSettings,
    fairness_problem,
    table_samples,
)
from comity.problems.gaps import Metric, needs
from comity.problems.own_rows import (
    OwnRows,
    OwnRowsProblem,
    RowsFile,
    RowsReport,
    located,
    rows_files,
)
from comity.settings import Settings, build, setting

Scale = tuple[FiniteFloat, PositiveFloat]
"""Mean and spread."""


class ColumnDescription(Settings):
    """One ``[problem.columns.NAME]`` table."""

    type: Literal["number", "category"] | None = setting(None, "number, or category with values")
    values: list[str | int | float | bool] | None = setting(None, "all values of a category")
    scale: Scale | Literal["federated"] | None = setting(
        None, "of a number: [mean, spread], or federated: those of all clients' training rows"
    )
    sensitive: bool = setting(False, "whether its values are groups that are to be treated alike")
    feature: bool = setting(True, "whether it is an input")
    date: str | None = setting(None, "of a number: format of dates that become days, %d.%m.%Y")
    median: FiniteFloat | None = setting(
        None, "of a number: what stands for a missing one, beside a 0/1 input that marks it"
    )


class Description(OwnRows, Reading, FairnessSettings):
    """The ``[problem]`` table of a configuration: a public schema, and the rows held here."""

    kind: Literal["table"] = setting(..., "a table with a public schema")
    name: str = setting("table", "what to call the problem")
    label: str = setting(..., "the column to predict; it has two values")
    positive: str | int | float | bool = setting(..., "the value of the label that counts as yes")
    metrics: list[Metric] = setting(["dp"], "dp, eo or eodds")
    columns: dict[str, dict[str, Any]] = setting(..., "the columns by name, in the inputs' order")
    scales: dict[str, Scale] = setting({}, "mean and spread of columns whose scale is federated")
    sensitive: dict[str, dict[str, Any]] = setting(
        {}, "attributes by name, each with column and groups; beside sensitive columns"
    )
    title: str | None = setting(None, "description in one line")
    strict_point: list[FiniteFloat] | None = setting(
        None, "of a finished run: the point that only models of some use are above"
    )
    learned: bool = setting(
        False, "of a finished run: whether the schema comes from the rows of a table"
    )


# -- from a description to a problem -------------------------------------------------------


def described(values: Mapping[str, Any]) -> SchemaProblem:
    """Return the problem that a ``[problem]`` table with a schema describes."""
    description = build(Description, values, where="problem")
    return _described(json.dumps(description.model_dump(mode="json")))


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``[problem]`` table with all that decides a run's bits: defaults, paths, sums."""
    description = build(Description, values, where="problem")
    described(values)
    description = description.model_copy(update=located(description))
    return description.model_dump(exclude_none=True, mode="json")


@lru_cache(maxsize=8)
def _described(text: str) -> SchemaProblem:
    description = Description(**json.loads(text))
    if len(set(description.metrics)) < len(description.metrics):
        raise UserError(f"problem.metrics = {description.metrics}: names something twice.")
    schema, files = _schema(description), rows_files(description)
    if description.learned and files:
        raise UserError("problem.learned: the schema of a finished run has no rows; leave it out.")
    names = [attribute.name for attribute in schema.sensitive]
    family = LearnedProblem if description.learned else SchemaProblem
    point = description.strict_point
    problem = fairness_problem(
        description.name,
        description.title
        or f"{description.name}: {schema.label} from {len(schema.inputs)} columns, fair to "
        f"{' and '.join(names)}",
        HeldTables(schema, files),
        {attribute.name: len(attribute.values) for attribute in schema.sensitive},
        description.metrics,
        FairnessSettings(**{k: getattr(description, k) for k in FairnessSettings.model_fields}),
        partial(family, files=files, strict=None if point is None else tuple(point)),
    )
    clients = {"clients": len(files)} if files else {}
    defaults = {**problem.run_defaults, "partition": "natural", **clients}
    return replace(problem, run_defaults=defaults)


def _schema(description: Description) -> Schema:
    """Return the schema of a description that does not contradict itself."""
    columns = {
        name: _column(name, values, description) for name, values in description.columns.items()
    }
    for name in description.scales:
        if description.columns.get(name, {}).get("scale") != "federated":
            raise UserError(
                f"problem.scales.{name}: only a column with scale = 'federated' gets one."
            )
    positive, negative = plain_text(description.positive), None
    label = columns.pop(description.label, None)
    if label is not None:
        values = [plain_text(value) for value in label.values or ()]
        if len(values) != 2 or positive not in values:
            raise UserError(
                f"problem.columns.{description.label}: the label must have two values, and "
                f"'{description.positive}' (positive) must be one of them; got {values}."
            )
        negative = next(value for value in values if value != positive)
    attributes = [
        declared_attribute(name, values) for name, values in description.sensitive.items()
    ]
    schema = Schema(
        description.name,
        description.label,
        positive,
        tuple(columns.values()),
        negative,
        tuple(attributes),
        reading_of(description),
    )
    if not schema.sensitive or not schema.inputs:
        raise UserError(
            "problem.columns: at least one column must be sensitive (sensitive = true), and at "
            "least one must be an input."
        )
    names = [attribute.name for attribute in schema.sensitive]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"problem.sensitive.{twice}: there is a sensitive column of this name.")
    return schema


def _column(name: str, values: Mapping[str, Any], description: Description) -> Column:
    where = f"problem.columns.{name}"
    column = build(ColumnDescription, values, where)
    number = column.type == "number"
    if number == (column.values is not None) or number == (column.scale is None):
        raise UserError(
            f"{where}: say type = 'number' with scale = [mean, spread] or 'federated', or else "
            "list all values of the category."
        )
    if number:
        if column.sensitive:
            raise UserError(f"{where}: a sensitive column needs values, which are its groups.")
        scale = column.scale if not isinstance(column.scale, str) else description.scales.get(name)
        return Column(
            name,
            None,
            scale,
            feature=column.feature,
            median=column.median,
            date=column.date,
            learned=description.learned,
        )
    categories = tuple(text_of(value) for value in column.values or ())
    if description.learned:
        return Column(name, categories, feature=column.feature, learned=True)
    if len(set(map(plain_text, categories))) < len(categories) or "" in categories:
        raise UserError(
            f"{where}.values = {column.values}: names a value twice, or one that stands for a "
            "missing cell."
        )
    if column.sensitive and not 2 <= len(categories) <= MOST_GROUPS:
        raise UserError(
            f"{where}: a sensitive column must have 2 to {MOST_GROUPS} values, got "
            f"{len(categories)}."
        )
    return Column(name, categories, None, column.sensitive, column.feature)


# -- rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldTables:
    """The rows that are held here, read when they are needed."""

    schema: Schema
    files: tuple[RowsFile, ...]

    def __call__(self) -> Table:
        """Return all rows, client by client, each client's in the order of its file."""
        return _joined(self)

    def of(self, client: int) -> Table:
        """Return the rows of one client, whose file is held here."""
        table = _tables(self)[client]
        assert table is not None
        return table


@lru_cache(maxsize=4)
def _tables(held: HeldTables) -> tuple[Table | None, ...]:
    return tuple(_read(held.schema, file) if file.path else None for file in held.files)


def _read(schema: Schema, file: RowsFile) -> Table:
    columns = read_columns(file.verified(), "problem.rows", schema.reading)
    return declared_table(schema, columns, file.path)


@lru_cache(maxsize=4)
def _joined(held: HeldTables) -> Table:
    empty = declared_table(held.schema, {}, held.schema.name)
    tables = {client: table for client, table in enumerate(_tables(held)) if table is not None}
    parts = [empty, *tables.values()]
    return replace(
        empty,
        inputs=np.concatenate([part.inputs for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        sensitive={
            name: np.concatenate([part.sensitive[name] for part in parts])
            for name in empty.sensitive
        },
        silos=np.repeat(
            np.array(list(tables), dtype=np.int64), [len(table.label) for table in tables.values()]
        ),
        silo_names=tuple(
            Path(file.path).name or f"client {client}" for client, file in enumerate(held.files)
        ),
        notes=tuple(note for part in parts for note in part.notes),
    )


# -- the problem ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SchemaProblem(OwnRowsProblem, FairnessProblem):
    """Accuracy and fairness on rows that are encoded and scaled by a public schema."""

    table: HeldTables
    strict: tuple[float, ...] | None = None
    """Value of `strict_point` where all rows were held, if it is known."""

    @property
    def schema(self) -> Schema:
        """The public schema."""
        return self.table.schema

    def client_samples(self, client: int) -> Samples:
        """Return the rows of one client, in the order of its file."""
        return table_samples(self.table.of(client), self.aims)

    def needs(self, client: int) -> Iterator[tuple[str, BoolArray]]:
        """Yield the people without whom a score of a client is undefined."""
        yield from needs(self.table.of(client), self.aims)

    def prepare(self, samples: Samples, train: IntArray) -> Mapping[str, Tensor]:
        """Scale the numbers among the inputs by the schema."""
        return {**samples.columns, "inputs": self.prepared(samples.columns["inputs"])}

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return inputs with numbers measured from the mean in the spread, rounded once."""
        numeric = torch.from_numpy(self.schema.numeric)
        if self.partition_spec is None or not numeric.any():
            return inputs
        mean, spread = torch.tensor(self.scales(), dtype=torch.float64).T
        scaled = inputs.clone()
        scaled[:, numeric] = ((inputs[:, numeric].double() - mean) / spread).to(inputs.dtype)
        return scaled

    def strict_point(self) -> tuple[float, ...] | None:
        """Return the point of all clients' rows; None where some are not held."""
        return super().strict_point() if self.complete else self.strict

    # -- scales ----------------------------------------------------------------------------

    @property
    def federated(self) -> tuple[str, ...]:
        """Columns whose scale is that of all clients' training rows and is not known yet."""
        return tuple(column.name for column in self.schema.numbers if column.scale is None)

    def scales(self) -> tuple[tuple[float, float], ...]:
        """Return mean and spread of each number among the inputs."""
        learned: Mapping[str, tuple[float, float]] = {}
        if self.federated:
            if not self.complete:
                raise UserError(
                    f"problem {self.name}: the scale of {', '.join(self.federated)} is federated "
                    "and not known here: it comes from a survey of all clients (problem.scales)."
                )
            learned = _learned(self)
        return tuple(column.scale or learned[column.name] for column in self.schema.numbers)

    def scale_statistics(self, client: int) -> FloatArray:
        """Return count, sum and sum of squares (3 x columns) of the `federated` columns.

        They are taken over the training rows of one client, which must be held here.
        """
        rows = self.client_rows()[client].train
        chosen = [self.schema.features.index(name) for name in self.federated]
        return scale_statistics(self.table().inputs[rows][:, chosen])

    def federated_scales(self, statistics: list[FloatArray]) -> dict[str, tuple[float, float]]:
        """Return mean and spread of the `federated` columns, for ``problem.scales``.

        Args:
            statistics: What `scale_statistics` returned for each client, in their order.
        """
        scales = federated_scales(statistics).tolist()
        return {
            name: (mean, spread)
            for name, (mean, spread) in zip(self.federated, scales, strict=True)
        }


@dataclass(frozen=True, kw_only=True)
class LearnedProblem(SchemaProblem):
    """A problem on a table as a finished run has it: what was learned from rows, and no rows."""

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        """Return no rows for each client, however they were distributed."""
        nothing = np.zeros(0, dtype=np.int64)
        return [ClientRows(nothing, nothing, nothing)] * spec.clients

    def prepared(self, inputs: Tensor) -> Tensor:
        """Return inputs scaled with the roundings of training."""
        return FairnessProblem.prepared(self, inputs)


@lru_cache(maxsize=4)
def _learned(problem: SchemaProblem) -> Mapping[str, tuple[float, float]]:
    clients = range(len(problem.files))
    return problem.federated_scales([problem.scale_statistics(client) for client in clients])


# -- own rows against the schema -----------------------------------------------------------


def check_rows(values: Mapping[str, Any], path: str | Path) -> RowsReport:
    """Return how a file of rows fits a public schema; see `comity.problems.check_rows`."""
    problem = described({**values, "rows": [str(path)], "sha256": []})
    schema, columns = problem.schema, read_columns(Path(path), "rows", problem.schema.reading)
    count = len(next(iter(columns.values())))
    unused = tuple(name for name in columns if name not in schema.used)
    if findings := tuple(schema.findings(columns)):
        return RowsReport(count, findings, unused=unused)
    table = declared_table(schema, columns, str(path))
    counts = {
        f"{name} = {value}": {
            label: int(((codes == code) & (table.label == number)).sum())
            for number, label in enumerate(("no", "yes"))
        }
        for name, codes in table.sensitive.items()
        for code, value in enumerate(table.attribute_values[name])
    }
    return RowsReport(count, problem.shortage_findings(0), counts, unused, table.notes)
