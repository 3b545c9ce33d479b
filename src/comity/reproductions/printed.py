"""Printed tables, which come with the package as CSV files, and what reproducing them needs."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from comity.errors import unknown


@dataclass(frozen=True)
class Measured:
    """Runs of one problem of a table whose figures are recorded and still hold."""

    table: str
    problem: str
    seeds: int
    """Number of seeds."""
    protocol: str
    """Models that count, or another part of the protocol that a reader needs to know."""
    commit: str
    version: str
    file: str
    """File with the figures, from the root of the repository."""
    part: str = ""
    """Rows or preferences, where it is not all of the table."""


def read_measured() -> list[Measured]:
    """Return what has been measured, from ``measured.toml`` in the package."""
    text = (files("comity.reproductions") / "measured.toml").read_text()
    return [Measured(**entry) for entry in tomllib.loads(text)["measured"]]


@dataclass(frozen=True)
class Needs:
    """Contents and cost of one printed table, as `comity reproduce --list` shows it."""

    title: str
    """Contents of the table."""
    hours: Mapping[str, float]
    """Estimated CPU hours of the whole table by problem, with the command's defaults."""
    seeds: int
    """Seeds that the command uses by default."""


def read_printed(file: str, problem: str) -> Iterator[tuple[dict[str, str], tuple[float, float]]]:
    """Yield the rows of a printed table about a problem, each with mean and spread in true units.

    A spread that is not printed is NaN.

    Args:
        file: Name of the CSV file.
        problem: The problem as the table prints it.
    """
    text = (files("comity.reproductions") / "printed_tables" / file).read_text()
    for row in csv.DictReader(text.splitlines()):
        if row["environment_or_dataset"] == problem:
            scale = float(row["scale_factor"])
            yield row, (float(row["mean"]) * scale, float(row["std"] or "nan") * scale)


def choose_rows(
    rows: Sequence[str] | None, known: Collection[str], default: Collection[str] | None = None
) -> list[str]:
    """Return the rows of a table that are to be reproduced.

    Args:
        rows: The rows asked for; None: the default.
        known: All rows of the table; others are refused.
        default: The rows where none are asked for; None: all.
    """
    chosen = list(rows or default or known)
    for row in chosen:
        if row not in known:
            raise unknown("row of this table", row, known)
    return chosen
