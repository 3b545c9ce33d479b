"""The rows of the tables of pFedRLLA and ConFREE: measures of runs beside printed figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import Any

import numpy as np

from comity.reproductions.campaign import check_entries
from comity.reproductions.picture_tables import CONTROL, DATA, TABLES, printed, printed_key
from comity.runs.compare import Comparison
from comity.runs.directory import Run
from comity.runs.how_soon import how_soon, seconds_until, stable_round, validation_of_all
from comity.runs.reproduction_schema import PictureResults, PictureRow
from comity.runs.schema import Difference, Spread
from comity.runs.spreads import spread


def part_rows(
    table: str,
    entries: Mapping[str, str],
    part: Mapping[str, Any],
    comparison: Comparison,
    target: float | None,
) -> Iterator[PictureRow]:
    """Yield the rows of one part of a table.

    Args:
        table: Name of the table.
        entries: Entry of the comparison by row.
        part: Partition and what is varied.
        comparison: The runs.
        target: Validation accuracy whose first round is tabulated; None: the highest that all runs
            reach.
    """
    about = TABLES[table]
    runs = {entry: seeds for (entry, _), seeds in comparison.runs.items()}
    check_entries(comparison, entries.values())
    federated = {row: runs[entry] for row, entry in entries.items() if row != "no-communication"}
    target = target or common_target([run for seeds in federated.values() for run in seeds])
    for row, entry in entries.items():
        measured = [_measures(run) for run in runs[entry]]
        yield {
            "algorithm": row,
            "entry": entry,
            **part,  # type: ignore[typeddict-item]
            **({"alpha": float(part["partition"][10:])} if about.across == "alpha" else {}),
            "seeds": [run.configuration.seed for run in runs[entry]],
            "ours": {
                name: _spread([values[name] for values in measured]) for name in about.measures
            },
            "printed": {},
            "trivial": float(np.mean([run.results["trivial"]["accuracy"] for run in runs[entry]])),
            **({"how_soon": how_soon(runs[entry], target)} if target and row in federated else {}),
            **_gains(row, {name: runs[each] for name, each in entries.items()}),
        }


def common_target(runs: Sequence[Run]) -> float | None:
    """Return the highest accuracy, in thousandths, that each run reaches; None if none is known."""
    best = [max(validation_of_all(run).values(), default=0.0) for run in runs]
    return floor(1000 * min(best, default=0.0)) / 1000 or None


def _measures(run: Run) -> dict[str, float | None]:
    """Return accuracies, on test and validation data, and times of a run."""
    stable, validation = stable_round(run), run.results.get("validation", {})
    spent = sum(run.spent.values())
    return {
        "accuracy": run.results["metrics"]["accuracy"],
        "before": validation.get("received"),
        "after": validation.get("trained"),
        "seconds": spent,
        "seconds_per_round": spent / run.configuration.rounds,
        "seconds_to_stable": None if stable is None else seconds_until(run, stable),
        "accuracy_when_stable": None if stable is None else validation_of_all(run)[stable],
    }


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return spread(known) if known else None


def _gains(row: str, runs: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, Difference]]:
    """Return what ConFREE gains over its host and over the control, seed by seed."""
    host, _, wrapper = row.partition("+")
    others = {"host": host, "control": f"{host}+{CONTROL}"}
    over: dict[str, Difference] = {}
    for name, other in others.items() if wrapper in ("confree", CONTROL) else ():
        if other in runs and other != row:
            pairs = zip(runs[row], runs[other], strict=True)
            accuracies = [[run.results["metrics"]["accuracy"] for run in pair] for pair in pairs]
            each = np.round([ours - theirs for ours, theirs in accuracies], 6)
            mean, std = float(each.mean()), float(each.std())
            over[name] = {"mean": mean, "std": std, "each": each.tolist()}
    return {"over": over} if over else {}


def set_beside(results: PictureResults, usual: Mapping[str, Any]) -> None:
    """Set printed figures beside ours where all is as printed; list the others as elsewhere.

    Args:
        results: The table, which is completed.
        usual: Clients and participation in print, where the table does not vary them.
    """
    table, problem, common = results["table"], results["problem"], results["protocol"]
    figures = printed(table)
    alike = all(common.get(name, value) == value for name, value in usual.items())
    if problem in DATA and alike:
        for row in results["rows"]:
            # some printed settings do not name the partition
            if row["partition"] not in TABLES[table].partitions_of(problem):
                continue
            for measure in results["measures"]:
                key = printed_key(table, row["algorithm"], measure, dict(row), DATA[problem])
                if key in figures:
                    row["printed"][measure] = figures.pop(key)
    results["printed_elsewhere"] = [
        {"data": key[0], "setting": key[1], "algorithm": key[2], "metric": key[3], "value": value}
        for key, value in figures.items()
    ]
