"""A user's own table as a fairness problem, described in a configuration or passed as columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from comity.datasets.columns import Source, read_columns
from comity.datasets.reading import Reading, read_file, reading_of
from comity.datasets.roles import Roles
from comity.datasets.shipped import DATASETS, dataset
from comity.datasets.tables import Table, make_table
from comity.errors import UserError, unknown
from comity.problems.fairness import FairnessProblem, FairnessSettings, fairness_problem
from comity.problems.gaps import Metric
from comity.settings import build, setting


class Description(Reading, FairnessSettings):
    """The ``[problem]`` table of a configuration: the place of the rows and their meaning."""

    data: str = setting(
        ..., "a CSV or Parquet file, or the name of a data set that comes with the package"
    )
    name: str = setting("own-table", "what to call the problem")
    label: str | None = setting(None, "the column to predict; it has two values")
    positive: str | int | float | bool | None = setting(None, "the value that counts as yes")
    sensitive: list[str] | dict[str, Any] = setting([], "columns whose groups are to be equal")
    features: list[str] | None = setting(
        None, "columns to predict from; by default all but sensitive ones and those that name rows"
    )
    exclude: list[str] = setting([], "columns that are no inputs")
    sensitive_inputs: bool = setting(False, "whether sensitive columns are inputs, too")
    dates: dict[str, str] = setting({}, "formats of dates by column, such as %d.%m.%Y")
    categories: list[str] = setting([], "columns of numbers that are codes, one input per code")
    client: str | None = setting(None, "the column that says whose row it is, for natural clients")
    rows_per_client: int | None = setting(
        None, "with client: the largest number of rows of each, drawn at random", at_least=1
    )
    missing: Literal["refuse", "category", "drop"] = setting(
        "refuse", "missing cells: refuse, make them a category of their own, or drop the rows"
    )
    metrics: list[Metric] = setting(["dp"], "dp, eo or eodds")
    sha256: str | None = setting(None, "checksum of the file, so that no run mixes two versions")


def described(values: Mapping[str, Any]) -> FairnessProblem:
    """Return the problem that a ``[problem]`` table describes."""
    description = build(Description, values, where="problem")
    return _described(json.dumps(description.model_dump(mode="json")))


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``[problem]`` table with all that decides a run's bits: defaults, path, checksum."""
    description = build(Description, values, where="problem")
    if description.data not in DATASETS:
        path = Path(description.data).resolve()
        update = {"data": str(path), "sha256": description.sha256 or _checksum(path)}
        _verify(path, update["sha256"])
        reading = _found(path, update["sha256"], reading_of(description).model_dump_json())
        description = description.model_copy(update={**update, **dict(reading)})
    return description.model_dump(exclude_none=True, mode="json")


@lru_cache(maxsize=8)
def _found(path: Path, sha256: str, reading: str) -> Reading:
    """Return how a file of this content is read; large ones take a while."""
    return read_file(path, "problem.data", Reading.model_validate_json(reading))[1]


def _checksum(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        near = get_close_matches(path.name, DATASETS, n=1)
        hint = f" Did you mean the data set '{near[0]}'?" if near else ""
        raise UserError(
            f"problem.data: cannot read {path}: {error.strerror}. Training needs the rows; "
            f"predict, export and report of a finished run do not.{hint}"
        ) from None


def _verify(path: Path, sha256: str) -> None:
    """Refuse a file that has not the content that was configured."""
    if _checksum(path) != sha256:
        raise UserError(
            f"problem.data: {path} has changed since this run was configured; put the old file "
            "back, or start a new run."
        )


def table_problem(source: Source, **description: Any) -> FairnessProblem:
    """Return a problem of accuracy and fairness on rows of your own.

    Args:
        source: Path of a CSV file, a data frame, or columns by name.
        description: Keys of a ``[problem]`` table: ``label``, ``sensitive``, ``metrics``, … (see
            `Description`).
    """
    if isinstance(source, str | Path):
        return described({"data": str(source), **description})
    table = build(Description, {"data": "given columns", **description}, where="problem")
    return _posed(table, partial(_itself, _table(table, source)))


@lru_cache(maxsize=8)
def _described(text: str) -> FairnessProblem:
    description = Description(**json.loads(text))
    if description.data in DATASETS:
        return _posed(description, partial(dataset, description.data))
    return _posed(description, partial(_read, text))


def _posed(description: Description, table: partial[Table]) -> FairnessProblem:
    _check(description)
    values = table().attribute_values
    names = list(description.sensitive) or list(values)
    for name in names:
        if name not in values:
            raise unknown(f"sensitive attribute of {description.data}", name, values)
    problem: FairnessProblem = fairness_problem(
        description.name,
        f"{_title(description)}: fair to {' and '.join(names)}",
        table,
        {name: len(values[name]) for name in names},
        description.metrics,
        FairnessSettings(**{k: getattr(description, k) for k in FairnessSettings.model_fields}),
    )
    licence = DATASETS[description.data].licence if description.data in DATASETS else ""
    return replace(problem, licence=licence)


def _title(description: Description) -> str:
    """Return the name that the user gave the problem, else that of the file."""
    given = description.name != Description.model_fields["name"].default
    return description.name if given else Path(description.data).name


def _check(description: Description) -> None:
    """Refuse a description that contradicts itself."""
    if description.data in DATASETS:
        names = ("label", "positive", "features", "client", "rows_per_client")
        own = [name for name in names if getattr(description, name) is not None]
        plain = Description(data=description.data)
        own += [
            name
            for name in (
                *("missing", "exclude", "sensitive_inputs", "dates", "categories"),
                *Reading.model_fields,
            )
            if getattr(description, name) != getattr(plain, name)
        ]
        if own:
            raise UserError(
                f"problem.{own[0]} means nothing for data = '{description.data}', which comes with "
                "all that."
            )
    sensitive, metrics = list(description.sensitive), list[str](description.metrics)
    for field, values in (("sensitive", sensitive), ("metrics", metrics)):
        if len(set(values)) < len(values):
            raise UserError(f"problem.{field} = {values}: names something twice.")


@lru_cache(maxsize=8)
def _read(text: str) -> Table:
    description = Description(**json.loads(text))
    path = Path(description.data)
    if description.sha256 is not None:
        _verify(path, description.sha256)
    return _table(description, path)


def _itself(table: Table) -> Table:
    return table


def _table(description: Description, source: Source) -> Table:
    if description.label is None:
        raise UserError("problem.label is missing: name the column that is to be predicted.")
    names = [field.name for field in fields(Roles)]
    return make_table(
        description.name,
        read_columns(source, "problem.data", reading_of(description)),
        Roles(**{name: getattr(description, name) for name in names}),
        reading_of(description),
    )
