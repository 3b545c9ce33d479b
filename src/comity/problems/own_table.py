"""A user's own table as a fairness problem: described in a configuration, or given as columns."""

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
from comity.problems.data import DataProblem
from comity.problems.fairness import FairnessSettings, Metric, fairness_problem
from comity.settings import build, setting


class Description(FairnessSettings):
    """The ``[problem]`` table of a configuration: where the rows are and what they mean."""

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


def described(values: Mapping[str, Any]) -> DataProblem:
    """The problem that a ``[problem]`` table describes."""
    what = build(Description, values, where="problem")
    return _described(json.dumps(what.model_dump(mode="json")))


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """A ``[problem]`` table with all that decides a run's bits: defaults, place and checksum."""
    what = build(Description, values, where="problem")
    if what.data not in DATASETS:
        path = Path(what.data).resolve()
        update = {"data": str(path), "sha256": what.sha256 or _checksum(path)}
        what = what.model_copy(update=update)
    return what.model_dump(exclude_none=True, mode="json")


def _checksum(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        near = get_close_matches(path.name, DATASETS, n=1)
        hint = f" Did you mean the data set '{near[0]}'?" if near else ""
        raise UserError(f"problem.data: cannot read {path}: {error.strerror}.{hint}") from None


def table_problem(source: Source, **description: Any) -> DataProblem:
    """A problem from your own rows: a CSV file, a data frame, or columns by name.

    ``description`` is what a ``[problem]`` table holds: ``label``, ``sensitive``, ``metrics``, …
    """
    if isinstance(source, str | Path):
        return described({"data": str(source), **description})
    what = build(Description, {"data": "given columns", **description}, where="problem")
    return _posed(what, partial(_itself, _table(what, source)))


@lru_cache(maxsize=8)
def _described(text: str) -> DataProblem:
    what = Description(**json.loads(text))
    if what.data in DATASETS:
        return _posed(what, partial(dataset, what.data))
    return _posed(what, partial(_read, text))


def _posed(what: Description, table: partial[Table]) -> DataProblem:
    _check(what)
    found = table()
    names = list(what.sensitive) or list(found.attribute_values)
    for name in names:
        if name not in found.attribute_values:
            raise unknown(f"sensitive attribute of {what.data}", name, found.attribute_values)
    return fairness_problem(
        what.name,
        f"{Path(what.data).name}: fair to {' and '.join(names)}",
        table,
        {name: len(found.attribute_values[name]) for name in names},
        what.metrics,
        FairnessSettings(**{k: getattr(what, k) for k in FairnessSettings.model_fields}),
    )


def _check(what: Description) -> None:
    """Refuse a description that contradicts itself."""
    if what.data in DATASETS:
        names = ("label", "positive", "features", "client")
        own = [name for name in names if getattr(what, name) is not None]
        if own or what.missing != "refuse":
            raise UserError(
                f"problem.{(own or ['missing'])[0]} means nothing for data = '{what.data}', which "
                "comes with all that."
            )
    for field, values in (("sensitive", list(what.sensitive)), ("metrics", what.metrics)):
        if len(set(values)) < len(values):
            raise UserError(f"problem.{field} = {values}: names something twice.")


@lru_cache(maxsize=8)
def _read(text: str) -> Table:
    what = Description(**json.loads(text))
    path = Path(what.data)
    if what.sha256 is not None and _checksum(path) != what.sha256:
        raise UserError(
            f"problem.data: {path} has changed since this run was configured; put the old file "
            "back, or start a new run."
        )
    return _table(what, path)


def _itself(table: Table) -> Table:
    return table


def _table(what: Description, source: Source) -> Table:
    if what.label is None:
        raise UserError("problem.label is missing: name the column that is to be predicted.")
    return make_table(
        what.name,
        read_columns(source, "problem.data"),
        label=what.label,
        positive=what.positive,
        sensitive=what.sensitive,
        features=what.features,
        client=what.client,
        missing=what.missing,
    )
