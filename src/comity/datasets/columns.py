"""Columns of text, as they are in a CSV file, a mapping or a data frame.

Faults of a file are reported with the row and the column.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from comity.errors import UserError

Columns = dict[str, list[str]]
"""Text of every cell, by column; a missing cell is empty."""

MISSING = frozenset({"", "?", "NA", "NaN", "nan", "<NA>", "NaT"})
"""Texts that stand for a missing cell."""


class Series(Protocol):
    """A column of a data frame."""

    def to_list(self) -> list[Any]:
        """Return the cells."""
        ...


class Frame(Protocol):
    """A data frame of any library."""

    @property
    def columns(self) -> Iterable[Any]:
        """Names of the columns."""
        ...

    def __getitem__(self, column: Any, /) -> Series: ...


Source = str | Path | Mapping[str, Iterable[Any]] | Frame
"""Path of a CSV file, columns by name, or a data frame."""


def read_columns(source: Source, where: str) -> Columns:
    """Return the cells of a table as text.

    Args:
        source: Path of a CSV file (also .gz), columns by name, or a data frame.
        where: Name of the source, for messages.
    """
    if isinstance(source, str | Path):
        return _read_csv(Path(source), where)
    if not isinstance(source, Mapping) and not hasattr(source, "columns"):
        raise UserError(
            f"{where}: cannot read a table from {type(source).__name__}; give the path of a CSV "
            "file, a mapping of columns or a data frame."
        )
    keys = list(source if isinstance(source, Mapping) else source.columns)
    _check_header([str(key) for key in keys], where)
    columns = {
        str(key): list(source[key] if isinstance(source, Mapping) else source[key].to_list())
        for key in keys
    }
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        listed = ", ".join(f"{name} ({len(cells)})" for name, cells in columns.items())
        raise UserError(f"{where}: columns must have the same number of rows: {listed}.")
    if not any(lengths):
        raise UserError(f"{where}: the table has no rows.")
    return {name: [text_of(cell) for cell in cells] for name, cells in columns.items()}


def _read_csv(path: Path, where: str) -> Columns:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            rows = list(reader)
    except FileNotFoundError:
        raise UserError(f"{where}: there is no file {path}.") from None
    except UnicodeDecodeError:
        raise UserError(f"{where}: {path} is not text; save it as CSV in UTF-8.") from None
    except csv.Error as error:
        raise UserError(
            f"{where}: {path}, at or before line {reader.line_num}: {error}; check the quotes."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{where}: cannot read {path}: {error}.") from None
    while rows and not rows[-1]:
        rows.pop()
    if len(rows) < 2:
        raise UserError(f"{where}: {path} needs a row of column names and rows of data below it.")
    header = [name.strip() for name in rows[0]]
    if len(header) == 1:
        raise UserError(
            f"{where}: {path} has the one column '{header[0]}'; cells must be separated by commas."
        )
    _check_header(header, f"{where}: {path}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise UserError(
                f"{where}: {path}, row {number} has {len(row)} cells, but the header has "
                f"{len(header)}; quote cells that contain commas and leave no row empty."
            )
    columns: Columns = {}
    for name, cells in zip(header, zip(*rows[1:], strict=True), strict=True):
        texts = {cell: text_of(cell) for cell in set(cells)}
        columns[name] = [texts[cell] for cell in cells]
    return columns


def text_of(cell: object) -> str:
    """Return a cell as text, empty if it is missing."""
    text = "" if cell is None else str(cell).strip()
    return "" if text in MISSING else text


def _check_header(names: Sequence[str], where: str) -> None:
    for number, name in enumerate(names, start=1):
        if not name:
            raise UserError(
                f"{where}: column {number} has no name in the header (row 1); name or remove it."
            )
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(
                f"{where}: {count} columns are called '{name}' in the header (row 1); give each "
                "its own name."
            )
