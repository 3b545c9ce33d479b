"""Columns of text, as they are in a file, a mapping or a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from comity.datasets.reading import Columns, Reading, as_texts, check_header, read_file
from comity.errors import UserError


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
"""Path of a CSV or Parquet file, columns by name, or a data frame."""
_PLAIN = Reading()


def read_columns(source: Source, where: str, reading: Reading | None = None) -> Columns:
    """Return the cells of a table as text.

    Args:
        source: Path of a CSV file (also .gz) or a Parquet file, columns by name, or a data frame.
        where: Name of the source, for messages.
        reading: How text becomes cells; what it does not say is found in the file.
    """
    reading = reading or _PLAIN
    if isinstance(source, str | Path):
        return read_file(Path(source), where, reading)[0]
    if not isinstance(source, Mapping) and not hasattr(source, "columns"):
        raise UserError(
            f"{where}: cannot read a table from {type(source).__name__}; give the path of a CSV "
            "file, a mapping of columns or a data frame."
        )
    keys = list(source if isinstance(source, Mapping) else source.columns)
    check_header([str(key) for key in keys], where)
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
    return {name: as_texts(cells, reading) for name, cells in columns.items()}


def text_of(cell: object) -> str:
    """Return a cell as text, empty if it is missing."""
    return _PLAIN.text_of(cell)
