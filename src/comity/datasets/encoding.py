"""Encoding: how the columns of a table become inputs.

Faults of a table are reported with the row and the column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.typing import Float32Array, IntArray
from comity.datasets.columns import text_of
from comity.errors import UserError

MOST_CATEGORIES = 1000
"""Largest number of different values in a column of categories."""


@dataclass(frozen=True)
class Location:
    """Position of a table's rows in its file, for messages: the header is row 1."""

    name: str
    """Name of the table."""
    rows: IntArray
    """Number of each row in the file."""

    def row(self, cells: Sequence[str], value: str) -> str:
        """Return the row of the first cell of a column that has a value."""
        return f"row {self.rows[cells.index(value)]}"


@dataclass(frozen=True)
class Encoding:
    """Encoding of one column, learned from a table's own rows."""

    column: str
    values: tuple[str, ...] | None = None
    """Categories, one 0/1 input each (an empty one is a missing cell); None for numbers."""
    median: float | None = None
    """Replacement of a missing number, beside a 0/1 input; None if none was missing."""

    @property
    def features(self) -> tuple[str, ...]:
        """Name of each input."""
        if self.values is not None:
            return tuple(f"{self.column}={value or 'missing'}" for value in self.values)
        return (self.column,) if self.median is None else (self.column, f"{self.column} missing")

    def inputs(self, cells: list[str]) -> Float32Array:
        """Return the inputs of a column's cells.

        Args:
            cells: Cells of the table's own rows, or of new ones without faults.
        """
        values, codes = coded(cells)
        if self.values is not None:
            index = {value: code for code, value in enumerate(self.values)}
            codes = np.array([index[value] for value in values], dtype=np.int64)[codes]
            return np.asarray(codes[:, None] == np.arange(len(index)), dtype=np.float32)
        numbers = np.array([number_of(value) for value in values])
        fits = np.abs(numbers) <= np.finfo(np.float32).max
        block = numbers[codes]
        if self.median is None:
            return block[:, None].astype(np.float32)
        absent = ~fits[codes]
        block[absent] = self.median
        return np.stack([block, absent], axis=1).astype(np.float32)


def learn_encoding(
    where: Location, column: str, cells: list[str], *, categories: bool = False
) -> tuple[Encoding, str]:
    """Return the encoding of a column, and a remark on it or nothing.

    Args:
        where: Position of the rows, for messages.
        column: Name of the column.
        cells: Its cells.
        categories: Whether numbers are codes, and each value a category.
    """
    values, codes = coded(cells)
    if categories:
        if len(values) > MOST_CATEGORIES:
            raise UserError(
                f"{where.name}: column '{column}' has {len(values):,} different values, too many "
                f"for categories (at most {MOST_CATEGORIES:,}); leave it out of categories, or of "
                "features."
            )
        return Encoding(column, tuple(values)), ""
    numbers = np.array([number_of(value) for value in values])
    known = np.array([value != "" for value in values])
    fits = np.abs(numbers) <= np.finfo(np.float32).max
    if known.any() and fits[known].all():
        present = known[codes]
        median = None if present.all() else float(np.median(numbers[codes][present]))
        return Encoding(column, median=median), ""
    odd = next((value for value, fit in zip(values, fits, strict=True) if value and not fit), "")
    if len(values) > MOST_CATEGORIES:
        raise UserError(
            f"{where.name}: column '{column}' has {len(values):,} different values and is not all "
            f"numbers ('{odd}' in {where.row(cells, odd)}); correct it or leave it out of features."
        )
    note = ""
    if fits.sum() > known.sum() / 2:
        note = (
            f"{column} is taken as categories, though mostly numbers, because of '{odd}' "
            f"({where.row(cells, odd)})"
        )
    return Encoding(column, tuple(values)), note


def coded(cells: list[str]) -> tuple[list[str], IntArray]:
    """Return the different values of cells, sorted, and the index of each cell's value."""
    values = sorted(set(cells))
    if len(values) <= MOST_CATEGORIES:  # they may become names, where 9 comes before 10
        values.sort(key=_order)
    index = {value: code for code, value in enumerate(values)}
    return values, np.fromiter(map(index.__getitem__, cells), np.int64, len(cells))


def _order(value: str) -> float:
    number = number_of(value)
    return number if math.isfinite(number) else math.inf


def number_of(text: str) -> float:
    """Return the number in a cell, or NaN."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def plain_text(value: object) -> str:
    """Return a value's text, equal for 1, 1.0 and '1.00'."""
    text = text_of(value)
    number = number_of(text)
    return f"{number:.15g}" if math.isfinite(number) else text
