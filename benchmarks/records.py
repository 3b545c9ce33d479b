"""Records of runs in a JSON file that grows run by run; cells and rows of their tables."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comity.core.storage import write_whole
from comity.core.typing import FloatArray

Record = dict[str, Any]
"""Settings that identify a run, and the figures that it ended with."""


def options_of(parser: argparse.ArgumentParser, file: Path) -> argparse.Namespace:
    """Return the options of a command line, the last of which are --table and --file.

    Args:
        parser: The other options.
        file: The file of records, unless another one is given.
    """
    parser.add_argument("--table", action="store_true", help="run nothing, print what there is")
    parser.add_argument("--file", type=Path, default=file)
    return parser.parse_args()


def read_records(file: Path) -> list[Record]:
    """Return the records of a file; none if there is no file."""
    records: list[Record] = json.loads(file.read_text()) if file.is_file() else []
    return records


def add(record: Record, records: list[Record], file: Path, indent: int | None = None) -> None:
    """Add a record to others and write all of them, so that a second call goes on from there.

    Args:
        record: The new record.
        records: The records so far; changed in place.
        file: The file of all records, replaced in one step.
        indent: Indent of the JSON text; None: all in one line.
    """
    records.append(record)
    write_whole(file, json.dumps(records, indent=indent).encode())


def key(record: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """Return what identifies a run: the values of some names, in their order."""
    return tuple(record[name] for name in names)


# -- tables --------------------------------------------------------------------------------


def spread(values: Sequence[float] | FloatArray, digits: int = 3, sign: str = "") -> str:
    """Return mean ± population standard deviation.

    Args:
        values: One value per seed; at least one.
        digits: Number of digits after the point.
        sign: ``+`` writes the sign of a positive mean as well.
    """
    return f"{np.mean(values):{sign}.{digits}f} ± {np.std(values):.{digits}f}"


def row_of(cells: Iterable[str]) -> str:
    """Return a row of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def rule_of(columns: int) -> str:
    """Return the row below the headings of a table in Markdown."""
    return row_of(["---"] * columns)
