"""Drafts of configurations for a user's file: what its columns are, and what they may be for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from comity.datasets.encoding import number_of
from comity.datasets.profile import (
    Candidate,
    ColumnProfile,
    client_candidates,
    label_candidates,
    missing_markers,
    obvious,
    positive_of,
    profile,
    sensitive_candidates,
)
from comity.datasets.reading import Columns, Reading, read_file
from comity.errors import UserError
from comity.problems.own_table import described

_CLIENTS, _ROUNDS = 3, 20


@dataclass(frozen=True)
class Draft:
    """A drafted configuration of a run on a file."""

    file: str
    rows: int
    columns: list[ColumnProfile]
    candidates: dict[str, list[Candidate]]
    """Columns that may be ``label``, ``sensitive`` and ``client``, the likeliest first."""
    warnings: list[str]
    choices: list[str]
    """Choices that the user must make before the draft can run; empty: it runs as it is."""
    toml: str
    """The configuration, with remarks."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "complete": not self.choices}


def draft(path: Path) -> Draft:
    """Return a drafted configuration for a file.

    Args:
        path: A CSV file (also .gz) or a Parquet file.
    """
    columns, reading = read_file(path, "data", Reading())
    markers = missing_markers(columns)
    if markers:
        columns, reading = read_file(path, "data", Reading(missing_values=tuple(markers)))
    profiles = profile(columns)
    by_name = {column.name: column for column in profiles}
    candidates = {
        "label": label_candidates(profiles),
        "sensitive": sensitive_candidates(profiles),
        "client": client_candidates(columns, profiles),
    }
    label, client = _only(candidates["label"]), _only(candidates["client"])
    candidates["label"] = [c for c in candidates["label"] if c.column != client]
    sensitive = [c.column for c in candidates["sensitive"] if c.named and c.column != label]
    values: dict[str, Any] = {"data": str(path), "name": path.name.partition(".")[0]}
    choices = []
    if label is None:
        choices.append("label: the column to predict, with two values")
    else:
        values["label"] = label
        positive = positive_of(by_name[label])
        if not obvious(by_name[label]) and positive is None:
            choices.append(f"positive: which of {' and '.join(by_name[label].examples)} is yes")
        elif not obvious(by_name[label]):
            values["positive"] = positive
    if sensitive:
        values["sensitive"] = sensitive
    else:
        choices.append("sensitive: at least one column whose groups are to be treated alike")
    if client is not None:
        values["client"] = client
    keys = [label, client, *sensitive]
    excluded = [c.name for c in profiles if c.kind == "texts" and c.name not in keys]
    if excluded:
        values["exclude"] = excluded
    if any(c.missing for c in profiles if c.name not in excluded and c.kind != "id"):
        holes = any(by_name[key].missing for key in keys if key is not None)
        values["missing"] = "drop" if holes else "category"
    values |= reading.model_dump(exclude_defaults=True, exclude={"encoding"}, mode="json")
    values |= {} if reading.encoding in (None, "utf-8") else {"encoding": reading.encoding}
    for name, plain in (("separator", ","), ("decimal", "."), ("thousands", "")):
        if values.get(name) == plain:
            del values[name]
    warnings = [f"{c.name}: {c.warning}" for c in profiles if c.warning]
    if not choices:
        try:  # what is done to the table says more than how its columns look
            warnings = list(described(values).samples().notes)
            warnings += [f"{name} is excluded: {by_name[name].warning}" for name in excluded]
        except UserError as error:
            choices.append(f"a remedy: {error}")
    warnings += [
        f"'{text}' is taken as missing: it is all that is no number in {_few(names)}"
        for text, names in markers.items()
    ]
    run = {
        "algorithm": "fedpref",
        "clients": _CLIENTS if client is None else by_name[client].values,
        "rounds": _ROUNDS,
        **({} if client is None else {"partition": "natural"}),
    }
    text = _toml(run, values, candidates, choices, warnings, _ages(columns, candidates))
    rows = len(next(iter(columns.values())))
    return Draft(str(path), rows, profiles, candidates, warnings, choices, text)


def _few(names: Sequence[str]) -> str:
    """Return the first names of several, and how many there are beside them."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more columns" if more > 0 else "")


def _only(candidates: Sequence[Candidate]) -> str | None:
    """Return the one candidate, or the one whose name says so; None if that is not clear."""
    named = [candidate for candidate in candidates if candidate.named]
    chosen = candidates if len(candidates) == 1 else named
    return chosen[0].column if len(chosen) == 1 else None


def _ages(columns: Columns, candidates: dict[str, list[Candidate]]) -> list[str]:
    """Return lines that group numbers such as ages, for the user to uncomment."""
    lines = []
    for candidate in candidates["sensitive"]:
        numbers = [number_of(cell) for cell in columns[candidate.column] if cell]
        if not candidate.named and numbers and np.isfinite(numbers).all():
            middle = round(float(np.median(numbers)))
            name = json.dumps(candidate.column, ensure_ascii=False)
            lines += [
                "",
                f"# To have groups of {candidate.column}, too, write all attributes as tables:",
                f"# [problem.sensitive.{name}]",
                f"# column = {name}",
                f'# groups = {{"under {middle}" = "< {middle}", "{middle} and over" = "*"}}',
            ]
    return lines


def _toml(
    run: dict[str, Any],
    problem: dict[str, Any],
    candidates: dict[str, list[Candidate]],
    choices: Sequence[str],
    warnings: Sequence[str],
    end: Sequence[str],
) -> str:
    """Return the text of a configuration with remarks."""
    lines = [f"# TO CHOOSE: {choice}" for choice in choices]
    lines += [f"# note: {warning}" for warning in warnings]
    lines += ["" for _ in lines[:1]]
    lines += [f"{key} = {_value(value)}" for key, value in run.items()]
    lines += ["", "[problem]"]
    for key in ("data", "name", "label", "positive", "sensitive", "client"):
        others = [c for c in candidates.get(key, ()) if c.column not in str(problem.get(key, ""))]
        if key in problem:
            lines.append(f"{key} = {_value(problem[key])}")
        elif key in ("label", "sensitive"):
            lines.append(f"# {key} =")
        lines += [f"# {key}: perhaps {_value(c.column)} ({c.reason})" for c in others]
    known = ("data", "name", "label", "positive", "sensitive", "client")
    lines += [f"{key} = {_value(value)}" for key, value in problem.items() if key not in known]
    return "\n".join([*lines, *end]) + "\n"


def _value(value: Any) -> str:
    """Return a text, a number or a list of texts as TOML; JSON's form of them is TOML's, too."""
    return json.dumps(value, ensure_ascii=False)
