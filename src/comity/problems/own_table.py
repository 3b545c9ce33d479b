"""A user's own table as a fairness problem, described in a configuration or passed as columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from comity.datasets.columns import Source, read_columns
from comity.datasets.shipped import DATASETS, dataset
from comity.datasets.tables import Table, make_table
from comity.errors import UserError, unknown
from comity.problems.fairness import (
    FairnessProblem,
    FairnessSettings,
    Metric,
    fairness_problem,
)
from comity.settings import build, setting


class Description(FairnessSettings):
    """The ``[problem]`` table of a configuration: the place of the rows and their meaning."""

    data: str = setting(..., "a CSV file, or the name of a data set that comes with the package")
    name: str = setting("own-table", "what to call the problem")
    label: str | None = setting(None, "the column to predict; it has two values")
    positive: str | int | float | bool | None = setting(None, "the value that counts as yes")
    sensitive: list[str] | dict[str, Any] = setting([], "columns whose groups are to be equal")
    features: list[str] | None = setting(None, "columns to predict from; all others unless given")
    client: str | None = setting(None, "the column that says whose row it is, for natural clients")
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
        description = description.model_copy(update=update)
    return description.model_dump(exclude_none=True, mode="json")


def _checksum(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        near = get_close_matches(path.name, DATASETS, n=1)
        hint = f" Did you mean the data set '{near[0]}'?" if near else ""
        raise UserError(f"problem.data: cannot read {path}: {error.strerror}.{hint}") from None


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
    return fairness_problem(
        description.name,
        f"{Path(description.data).name}: fair to {' and '.join(names)}",
        table,
        {name: len(values[name]) for name in names},
        description.metrics,
        FairnessSettings(**{k: getattr(description, k) for k in FairnessSettings.model_fields}),
    )


def _check(description: Description) -> None:
    """Refuse a description that contradicts itself."""
    if description.data in DATASETS:
        names = ("label", "positive", "features", "client")
        own = [name for name in names if getattr(description, name) is not None]
        if own or description.missing != "refuse":
            raise UserError(
                f"problem.{(own or ['missing'])[0]} means nothing for data = "
                f"'{description.data}', which comes with all that."
            )
    sensitive, metrics = list(description.sensitive), list[str](description.metrics)
    for field, values in (("sensitive", sensitive), ("metrics", metrics)):
        if len(set(values)) < len(values):
            raise UserError(f"problem.{field} = {values}: names something twice.")


@lru_cache(maxsize=8)
def _read(text: str) -> Table:
    description = Description(**json.loads(text))
    path = Path(description.data)
    if description.sha256 is not None and _checksum(path) != description.sha256:
        raise UserError(
            f"problem.data: {path} has changed since this run was configured; put the old file "
            "back, or start a new run."
        )
    return _table(description, path)


def _itself(table: Table) -> Table:
    return table


def _table(description: Description, source: Source) -> Table:
    if description.label is None:
        raise UserError("problem.label is missing: name the column that is to be predicted.")
    return make_table(
        description.name,
        read_columns(source, "problem.data"),
        label=description.label,
        positive=description.positive,
        sensitive=description.sensitive,
        features=description.features,
        client=description.client,
        missing=description.missing,
    )
