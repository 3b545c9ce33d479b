"""Schemas of tables: columns, categories, scales, label and sensitive attributes; no rows.

A schema is declared, so that parties that hold different rows encode them alike, or learned from
the rows of a table, so that new rows are encoded like these. Faults of a file are reported with the
row and the column; the header is row 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from comity.core.typing import BoolArray, Float32Array, IntArray
from comity.datasets.attributes import Attribute
from comity.datasets.dates import days, days_text, example
from comity.datasets.encoding import Encoding, Location, number_of, plain_text
from comity.datasets.reading import Columns, Reading
from comity.errors import Faults, UserError

OTHER = "other"
"""Category that stands for all values which the schema does not list, if it lists this one."""
_MANY = 40
_UNSEEN = (
    "is missing, but no row that the model learned from lacked it; fill it in or leave the row out."
)


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
    """One column."""

    name: str
    values: tuple[str, ...] | None = None
    """Categories, one 0/1 input each (an empty one is a missing cell); None for numbers."""
    scale: tuple[float, float] | None = None
    """Mean and spread of a number; None if they are those of all clients' training rows."""
    sensitive: bool = False
    """Whether no cell may be missing, as its values are the groups of an attribute."""
    feature: bool = True
    """Whether the column is an input."""
    median: float | None = None
    """Replacement of a missing number, beside a 0/1 input; None if none may be missing."""
    date: str | None = None
    """Format of dates, which become days since 1970; None for other columns."""
    learned: bool = False
    """Whether the encoding comes from rows: then ``other`` is a value like any."""

    @property
    def encoding(self) -> Encoding:
        """Encoding of the column's cells after `texts`."""
        return Encoding(self.name, self.values, self.median)

    def declared(self, cells: list[str]) -> dict[str, str | None]:
        """Return the category of each different cell; None where there is none."""
        assert self.values is not None
        plain = {plain_text(value): value for value in self.values}
        rest = OTHER if OTHER in self.values and not self.learned else None

        def category(cell: str) -> str | None:
            if cell in plain.values():
                return cell
            if cell:
                return plain.get(plain_text(cell), rest)
            return None if self.sensitive else rest

        return {cell: category(cell) for cell in dict.fromkeys(cells)}

    def texts(self, cells: list[str]) -> list[str]:
        """Return cells without faults as the encoding takes them."""
        if self.values is None:
            return cells if self.date is None else _days(cells, self.date)
        category = self.declared(cells)
        return [category[cell] or "" for cell in cells]

    def findings(self, cells: list[str]) -> Iterator[Finding]:
        """Yield the faults of the column's cells, one for each different wrong category."""
        if self.values is not None:
            for cell, category in self.declared(cells).items():
                if category is None:
                    known = [value for value in self.values if value]
                    rest = f" and {len(known) - _MANY} more" if len(known) > _MANY else ""
                    listed = ", ".join(known[:_MANY]) + rest
                    near = get_close_matches(cell, self.values, n=1)
                    hint = f" Did you mean '{near[0]}'?" if near else ""
                    fault = f"is '{cell}', which is not one of {listed}.{hint}"
                    if not cell:
                        fault = (
                            _UNSEEN if self.learned else f"is missing; it must be one of {listed}."
                        )
                    yield _finding(self.name, cells, [cell], fault)
            return
        if self.date is not None:
            yield from date_findings(self.name, cells, self.date, self.median is not None)
            return
        largest = float(np.finfo(np.float32).max)
        filled = self.median is not None
        wrong = [
            cell
            for cell in dict.fromkeys(cells)
            if not ((cell == "" and filled) or abs(number_of(cell)) <= largest)
        ]
        if wrong:
            missing = _UNSEEN if self.learned else "is missing."
            fault = f"must be a number, got '{wrong[0]}'." if wrong[0] else missing
            yield _finding(self.name, cells, wrong, fault)


class EncodedRows(NamedTuple):
    """Rows of a file as a schema encodes them."""

    inputs: Float32Array
    """Rows x inputs; numbers are as they were read, not scaled."""
    label: IntArray | None
    """1 for yes, 0 for no; None if the file has no label."""
    sensitive: dict[str, IntArray]
    """Group of each row, an index into ``attribute_values``, of attributes that the file has."""
    attribute_values: dict[str, tuple[str, ...]]
    """Names of the groups, by attribute."""


@dataclass(frozen=True)
class Schema:
    """The columns of a table, its label and what counts as yes, its sensitive attributes."""

    name: str
    label: str
    positive: str
    columns: tuple[Column, ...]
    """Columns that are inputs, and others with listed values; not the label."""
    negative: str | None = None
    """Value of the label that counts as no; None if it is not declared."""
    attributes: tuple[Attribute, ...] = ()
    """Sensitive attributes, beside those of sensitive columns."""
    reading: Reading = field(default=Reading(), hash=False)
    """Rules by which text becomes cells; separator and encoding are found in each file."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    """Names of the codes in a column of the file, where codes were renamed."""

    @property
    def inputs(self) -> tuple[Column, ...]:
        """Columns that are inputs, in their order."""
        return tuple(column for column in self.columns if column.feature)

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """All sensitive attributes, in their order: those of sensitive columns first."""
        own = (
            Attribute(column.name, column.name, tuple((v, (v,)) for v in column.values or ()))
            for column in self.columns
            if column.sensitive
        )
        return (*own, *self.attributes)

    @property
    def used(self) -> tuple[str, ...]:
        """All columns that learning takes: inputs and others with values, groups, the label."""
        names = (column.name for column in self.columns)
        return tuple(dict.fromkeys((*names, *(a.column for a in self.attributes), self.label)))

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
        return np.array([n == c.name for c in self.inputs for n in c.encoding.features], dtype=bool)

    def encode(self, columns: Columns) -> Float32Array:
        """Return new rows as inputs; columns that are no inputs may be absent.

        Args:
            columns: Columns as `read_columns` gives them.
        """
        return self.rows(columns, label=False).inputs

    def rows(
        self, columns: Columns, where: str | None = None, *, label: bool = True
    ) -> EncodedRows:
        """Return new rows as inputs, and their label and groups, so far as the file has them.

        Args:
            columns: Columns as `read_columns` gives them.
            where: Name of the rows, for messages.
            label: Whether to look for label and groups at all.
        """
        where = where or f"new rows of {self.name}"
        columns = renamed(columns, self.names)
        present = [a for a in self.sensitive if a.column in columns and label]
        labelled = label and self.label in columns
        findings = [*column_findings(self.inputs, columns)]
        faulty = {finding.column for finding in findings}
        for attribute in present:
            if attribute.column not in faulty:
                findings += _group_findings(attribute, self._texts(columns, attribute.column))
        findings += self._label_findings(columns) if labelled else ()
        refuse(findings, where)
        return EncodedRows(
            self.blocks(columns),
            self.labels(columns) if labelled else None,
            {attribute.name: self.groups(columns, attribute, where) for attribute in present},
            {attribute.name: attribute.values for attribute in present},
        )

    def findings(self, columns: Columns) -> Iterator[Finding]:
        """Yield all faults of a file's columns."""
        yield from column_findings(self.columns, columns)
        for attribute in self.attributes:
            if attribute.column in columns:
                yield from _group_findings(attribute, self._texts(columns, attribute.column))
            elif attribute.column not in {column.name for column in self.columns}:
                yield _absent(attribute.column, columns)
        yield from self._label_findings(columns)

    def _label_findings(self, columns: Columns) -> Iterator[Finding]:
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

    def labels(self, columns: Columns) -> IntArray:
        """Return 1 for rows whose label is yes, 0 for the others."""
        cells = columns[self.label]
        one = {cell: plain_text(cell) == self.positive for cell in set(cells)}
        return np.array([one[cell] for cell in cells], dtype=np.int64)

    def groups(self, columns: Columns, attribute: Attribute, where: str) -> IntArray:
        """Return the group of each row, an index into the attribute's values.

        Args:
            columns: Columns without faults.
            attribute: One of `sensitive`.
            where: Name of the rows, for messages.
        """
        cells = self._texts(columns, attribute.column)
        return attribute.codes(_location(where, cells), cells)

    def blocks(self, columns: Columns) -> Float32Array:
        """Return the inputs of columns without faults."""
        blocks = [c.encoding.inputs(c.texts(columns[c.name])) for c in self.inputs]
        return np.concatenate(blocks, axis=1)

    def notes(self, columns: Columns, where: str) -> Iterator[str]:
        """Yield a remark per column on cells that count as other."""
        for column in self.columns:
            if column.values is not None and OTHER in column.values and not column.learned:
                cells = columns[column.name]
                other = [c for c, v in column.declared(cells).items() if v == OTHER != c]
                if count := sum(map(cells.count, other)):
                    yield f"{where}: {count:,} cells of {column.name} count as {OTHER}"

    def _texts(self, columns: Columns, name: str) -> list[str]:
        """Return the cells of a column; those of a sensitive column as its declared values."""
        cells = columns[name]
        column = next((c for c in self.columns if c.name == name and c.sensitive), None)
        return cells if column is None else column.texts(cells)


def renamed(columns: Columns, names: Mapping[str, Mapping[str, str]]) -> Columns:
    """Return columns with names in place of codes; cells without a name stay as they are.

    Args:
        columns: Columns as `read_columns` gives them.
        names: Name of each code, by column.
    """
    return {
        column: [names[column].get(cell, cell) for cell in cells] if column in names else cells
        for column, cells in columns.items()
    }


# -- findings ------------------------------------------------------------------------------


def refuse(findings: Iterable[Finding], where: str) -> None:
    """Raise all faults as one error, if there are any.

    Args:
        findings: The faults.
        where: Name of the rows.
    """
    faults = Faults(where)
    faults.texts += [finding.text for finding in findings]
    faults.refuse()


def column_findings(wanted: Sequence[Column], columns: Columns) -> Iterator[Finding]:
    """Yield the faults of some columns of a file, absent ones among them.

    Args:
        wanted: The columns that the file must have.
        columns: Columns as `read_columns` gives them.
    """
    for column in wanted:
        if column.name in columns:
            yield from column.findings(columns[column.name])
        else:
            yield _absent(column.name, columns)


def _group_findings(attribute: Attribute, cells: list[str]) -> Iterator[Finding]:
    for cell in dict.fromkeys(cells):
        try:
            takers = attribute.takers(f"sensitive attribute '{attribute.name}'", cell)
        except UserError as error:
            yield _finding(attribute.column, cells, [cell], f"is '{cell}'; {error}")
            continue
        if len(takers) != 1:
            groups = " and in ".join(takers) or f"no group of {attribute.name}"
            fault = f"is '{cell}', which is in {groups}." if cell else "is missing."
            yield _finding(attribute.column, cells, [cell], fault)


def date_findings(
    column: str, cells: list[str], form: str, missing: bool = True
) -> Iterator[Finding]:
    """Yield a fault for each different cell that is no date.

    Args:
        column: Name of the column.
        cells: Its cells.
        form: Format of the dates.
        missing: Whether cells may be missing.
    """
    for cell in dict.fromkeys(cells):
        if (cell or not missing) and math.isnan(days(cell, form)):
            fault = f"must be a date like {example(form)}, got '{cell}'."
            yield _finding(column, cells, [cell], fault if cell else "is missing.")


def _days(cells: list[str], form: str) -> list[str]:
    texts = {cell: days_text(cell, form) for cell in set(cells)}
    return [texts[cell] for cell in cells]


def _absent(name: str, columns: Columns) -> Finding:
    near = get_close_matches(name, columns, n=1)
    hint = f" Did you mean to call '{near[0]}' so?" if near else ""
    return Finding(name, None, f"column '{name}' is absent from the header (row 1).{hint}")


def _finding(column: str, cells: list[str], wrong: Sequence[str], fault: str) -> Finding:
    """Return a fault of the first of some wrong cells, and the number of all."""
    faulty = set(wrong)
    rows: IntArray = np.flatnonzero([cell in faulty for cell in cells]) + 2
    more = f" {len(rows):,} rows have this fault." if len(rows) > 1 else ""
    return Finding(column, int(rows[0]), f"row {rows[0]}, column '{column}' {fault}{more}")


def _location(where: str, cells: Sequence[str]) -> Location:
    return Location(where, np.arange(len(cells)) + 2)
