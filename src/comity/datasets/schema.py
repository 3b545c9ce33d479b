"""Public schemas of tables: columns, categories and scales, declared and never learned from rows.

Parties that hold different rows encode them alike: the same inputs in the same order. Faults of a
file are reported with the row and the column; the header is row 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from comity.core.typing import BoolArray, Float32Array, FloatArray, IntArray
from comity.datasets.columns import Columns
from comity.datasets.encoding import Encoding, Location, number_of, plain_text
from comity.datasets.tables import Table
from comity.errors import UserError

OTHER = "other"
"""Category that stands for all values which the schema does not list, if it lists this one."""
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True)
class Finding:
    """One fault of a file, measured against a schema."""

    column: str
    """Column with the fault, or one that is absent."""
    row: int | None
    """First row with the fault; None if it is not about a single cell."""
    text: str
    """The fault as a sentence, with row and column."""


@dataclass(frozen=True)
class Column:
    """One declared column."""

    name: str
    values: tuple[str, ...] | None = None
    """Categories, one 0/1 input each; None for numbers."""
    scale: tuple[float, float] | None = None
    """Mean and spread of a number; None if they are those of all clients' training rows."""
    sensitive: bool = False
    feature: bool = True
    """Whether the column is an input."""

    @property
    def encoding(self) -> Encoding:
        """Encoding of the column's cells after `declared`."""
        return Encoding(self.name, self.values)

    def declared(self, cells: list[str]) -> dict[str, str | None]:
        """Return the declared category of each different cell; None where there is none."""
        assert self.values is not None
        plain = {plain_text(value): value for value in self.values}
        rest = OTHER if OTHER in self.values else None
        return {
            cell: plain.get(plain_text(cell), rest) if cell else None if self.sensitive else rest
            for cell in dict.fromkeys(cells)
        }

    def texts(self, cells: list[str]) -> list[str]:
        """Return cells without faults as the encoding takes them."""
        if self.values is None:
            return cells
        category = self.declared(cells)
        return [category[cell] or "" for cell in cells]

    def findings(self, cells: list[str]) -> Iterator[Finding]:
        """Yield the faults of the column's cells, one for each different wrong category."""
        if self.values is not None:
            for cell, category in self.declared(cells).items():
                if category is None:
                    listed = ", ".join(self.values)
                    near = get_close_matches(cell, self.values, n=1)
                    hint = f" Did you mean '{near[0]}'?" if near else ""
                    fault = f"is '{cell}', which is not one of {listed}.{hint}"
                    fault = fault if cell else f"is missing; it must be one of {listed}."
                    yield _finding(self.name, cells, [cell], fault)
            return
        largest = float(np.finfo(np.float32).max)
        wrong = [cell for cell in dict.fromkeys(cells) if not abs(number_of(cell)) <= largest]
        if wrong:
            fault = f"must be a number, got '{wrong[0]}'." if wrong[0] else "is missing."
            yield _finding(self.name, cells, wrong, fault)


@dataclass(frozen=True)
class Schema:
    """The declared columns of a table, its label, and what counts as yes."""

    name: str
    label: str
    positive: str
    columns: tuple[Column, ...]
    """All columns but the label."""
    negative: str | None = None
    """Value of the label that counts as no; None if it is not declared."""

    @property
    def inputs(self) -> tuple[Column, ...]:
        """Columns that are inputs, in their order."""
        return tuple(column for column in self.columns if column.feature)

    @property
    def sensitive(self) -> tuple[Column, ...]:
        """Columns of sensitive attributes, in their order."""
        return tuple(column for column in self.columns if column.sensitive)

    @property
    def numbers(self) -> tuple[Column, ...]:
        """Inputs that are numbers, in their order."""
        return tuple(column for column in self.inputs if column.values is None)

    @property
    def features(self) -> tuple[str, ...]:
        """Name of each input."""
        return tuple(name for column in self.inputs for name in column.encoding.features)

    @property
    def numeric(self) -> BoolArray:
        """Which inputs are numbers rather than 0/1."""
        return np.array([c.values is None for c in self.inputs for _ in c.encoding.features])

    def table(self, columns: Columns, where: str) -> Table:
        """Return rows, as `read_columns` gives them, encoded; an empty mapping has no rows.

        Args:
            columns: Columns of a file; those that the schema does not name are not used.
            where: Name of the rows, for messages.
        """
        columns = columns or {name: [] for name in (self.label, *(c.name for c in self.columns))}
        _refuse(self.findings(columns), where)
        cells = columns[self.label]
        codes = {}
        for column in self.sensitive:
            assert column.values is not None
            index = {value: code for code, value in enumerate(column.values)}
            texts = column.texts(columns[column.name])
            codes[column.name] = np.array([index[text] for text in texts], dtype=np.int64)
        return Table(
            name=self.name,
            inputs=self._blocks(columns, where),
            features=self.features,
            numeric=self.numeric,
            label=np.array([plain_text(cell) == self.positive for cell in cells], dtype=np.int64),
            sensitive=codes,
            attribute_values={column.name: column.values or () for column in self.sensitive},
            silos=np.zeros(len(cells), dtype=np.int64),
            silo_names=(where,),
            notes=tuple(self._notes(columns, where)),
            encodings=tuple(column.encoding for column in self.inputs),
        )

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows as inputs; columns that are no inputs may be absent."""
        where = f"new rows of {self.name}"
        _refuse(_column_findings(self.inputs, columns), where)
        return self._blocks(columns, where)

    def findings(self, columns: Columns) -> Iterator[Finding]:
        """Yield all faults of a file's columns."""
        yield from _column_findings(self.columns, columns)
        if self.label not in columns:
            yield _absent(self.label, columns)
            return
        cells = columns[self.label]
        others = [cell for cell in dict.fromkeys(cells) if plain_text(cell) != self.positive]
        allowed = [self.negative] if self.negative is not None else list(map(plain_text, others))
        allowed = [value for value in allowed if value][:1]
        for cell in others:
            if plain_text(cell) not in allowed:
                two = " or ".join(f"'{value}'" for value in (self.positive, *allowed))
                fault = f"is '{cell}', but the label is {two}." if cell else "is missing."
                yield _finding(self.label, cells, [cell], fault)

    def _blocks(self, columns: Columns, where: str) -> Float32Array:
        rows = Location(where, np.arange(len(columns[self.inputs[0].name])) + 2)
        blocks = [c.encoding.inputs(rows, c.texts(columns[c.name])) for c in self.inputs]
        return np.concatenate(blocks, axis=1)

    def _notes(self, columns: Columns, where: str) -> Iterator[str]:
        """Yield a remark per column on cells that count as other."""
        for column in self.columns:
            if column.values is not None and OTHER in column.values:
                cells = columns[column.name]
                other = [c for c, v in column.declared(cells).items() if v == OTHER != c]
                if count := sum(map(cells.count, other)):
                    yield f"{where}: {count:,} cells of {column.name} count as {OTHER}"


def scale_statistics(inputs: Float32Array) -> FloatArray:
    """Return count, sum and sum of squares of each column of numbers (3 x columns).

    Sums are rounded once, so that they do not depend on the order of the rows.
    """
    columns = inputs.astype(np.float64).T
    sums = [[math.fsum(column), math.fsum(column * column)] for column in columns]
    return np.array([[float(len(inputs)), *pair] for pair in sums]).reshape(-1, 3).T


def federated_scales(statistics: Sequence[FloatArray]) -> FloatArray:
    """Return mean and spread of each column (columns x 2) over the rows of all clients.

    Args:
        statistics: What `scale_statistics` returned for each client, in the order of the clients.
    """
    count, total, squares = (
        np.array([math.fsum(column) for column in rows.T])
        for rows in np.stack(statistics).swapaxes(0, 1)
    )
    mean = total / count
    variance = np.maximum(squares - count * mean**2, 0.0) / np.maximum(count - 1, 1)
    return np.stack([mean, np.maximum(np.sqrt(variance), _LEAST_SPREAD)], axis=1)


# -- findings ------------------------------------------------------------------------------


def _column_findings(wanted: Sequence[Column], columns: Columns) -> Iterator[Finding]:
    for column in wanted:
        if column.name in columns:
            yield from column.findings(columns[column.name])
        else:
            yield _absent(column.name, columns)


def _absent(name: str, columns: Columns) -> Finding:
    near = get_close_matches(name, columns, n=1)
    hint = f" Did you mean to call '{near[0]}' so?" if near else ""
    return Finding(name, None, f"column '{name}' is absent from the header (row 1).{hint}")


def _finding(column: str, cells: list[str], wrong: Sequence[str], fault: str) -> Finding:
    """Return a fault of the first of some wrong cells, and the number of all."""
    rows: IntArray = np.flatnonzero([cell in set(wrong) for cell in cells]) + 2
    more = f" {len(rows):,} rows have this fault." if len(rows) > 1 else ""
    return Finding(column, int(rows[0]), f"row {rows[0]}, column '{column}' {fault}{more}")


def _refuse(findings: Iterator[Finding], where: str) -> None:
    """Raise the first fault."""
    for finding in findings:
        raise UserError(f"{where}: {finding.text}")
