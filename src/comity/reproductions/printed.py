"""What all reproductions share: the printed tables, which come with the package."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from comity.configuration import read_toml
from comity.core.typing import OnRound
from comity.errors import UserError
from comity.runs.compare import Comparison
from comity.searches.comparison import SearchComparison

C = TypeVar("C")


@dataclass(frozen=True)
class Reproduction:
    """A printed table and what we measured for each of its rows."""

    path: Path
    """Its directory."""
    results: dict[str, Any]
    """The table, as in the JSON file named after it."""
    comparisons: Sequence[Comparison | SearchComparison] = ()
    """The comparisons behind it."""


def read_printed(file: str, problem: str) -> Iterator[tuple[dict[str, str], tuple[float, float]]]:
    """The rows of a printed table that speak of a problem; mean and spread in true units.

    A spread that is not printed is not a number.
    """
    text = (files("comity.reproductions") / "printed_tables" / file).read_text()
    for row in csv.DictReader(text.splitlines()):
        if row["environment_or_dataset"] == problem:
            scale = float(row["scale_factor"])
            yield row, (float(row["mean"]) * scale, float(row["std"] or "nan") * scale)


def check_plan(path: Path, **asked: Any) -> None:
    """Refuse to take the runs of an earlier plan for those of another problem or setting."""
    plan = read_toml(path)
    held = {**plan.pop("settings"), **plan}
    for name, value in asked.items():
        if held.get(name) != value:
            raise UserError(
                f"out: {path.parent} holds runs with {name} = {held.get(name)}, not {value}. "
                "Choose another directory."
            )


def under_each(
    protocols: Mapping[str, Mapping[str, Any]],
    path: Path,
    carried_out: Callable[[Path, Mapping[str, Any], OnRound], C],
    on_round: OnRound | None,
) -> dict[str, C]:
    """One comparison a protocol, in directories of their names, under one progress."""
    made: dict[str, C] = {}
    for number, (protocol, values) in enumerate(protocols.items()):

        def tell(done: int, total: int, text: str, number: int = number) -> None:
            if on_round is not None:
                on_round(done + number * total, len(protocols) * total, text)

        made[protocol] = carried_out(path / protocol, values, tell)
    return made
