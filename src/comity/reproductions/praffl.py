"""The tables of PraFFL beside our own figures: `comity reproduce praffl-2`.

A cell is the hypervolume per client from (0, 0) on accuracy and 1 - D, which is the paper's from
(1, 1) on error and D. Every algorithm keeps the round that is best on validation, as in the paper.
The effect of the split between the two phases (praffl-7) is only a picture there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comity.core.typing import OnRound
from comity.datasets.synthetic import reference_hypervolume
from comity.errors import UserError, unknown
from comity.reproductions.printed import Reproduction, check_plan, read_printed, under_each
from comity.runs.compare import PLAN, Comparison, run_plan, start_comparison
from comity.runs.execute import execute_at, free_path
from comity.runs.parallel import Work

DATA = {
    "praffl-synthetic": "SYNTHETIC",
    "praffl-compas": "COMPAS",
    "praffl-bank": "BANK",
    "praffl-adult": "ADULT",
}
ALGORITHMS = {
    "lft-ensemble": "LFT+Ensemble",
    "lft-fedavg": "LFT+FedAvg",
    "agnostic-fair-pooled": "AgnosticFair",
    "fairfed": "FairFed",
    "fedfb": "FedFB",
    "praffl": "PraFFL",
}
CLIENTS = (3, 10, 20)
SPLITS = {f"praffl[split={split}]": split for split in (0.1, 0.3, 0.5, 0.7, 0.9)}
"""The share of local training that the communicated network gets, by entry of a comparison."""


@dataclass(frozen=True)
class Printed:
    """A table: its file, unless the paper has but a picture, its problems, and its rows."""

    file: str | None
    problems: tuple[str, ...]
    rows: tuple[str, ...]
    across: str | None = None
    """What of a row is on the horizontal axis of the picture; None: nothing, problems differ."""


TABLES = {
    "praffl-2": Printed("praffl_table_2_hv_time.csv", (*DATA,), (*ALGORITHMS,)),
    "praffl-3": Printed(
        "praffl_table_3_clients.csv", ("praffl-synthetic",), (*ALGORITHMS,), "clients"
    ),
    "praffl-7": Printed(None, ("praffl-synthetic",), (*SPLITS,), "split"),
}


def printed(table: str, problem: str, clients: int) -> dict[str, float]:
    """Printed hypervolume by algorithm; table 2 has the problem's usual clients throughout."""
    file = TABLES[table].file
    if file is None:
        return {}
    names = {name: algorithm for algorithm, name in ALGORITHMS.items()}
    return {
        names[row["algorithm"]]: mean
        for row, (mean, _) in read_printed(file, DATA[problem])
        if row["metric"] == "hypervolume"
        and (table == "praffl-2" or row["setting"] == f"clients={clients}")
    }


def reproduce_praffl(
    table: str,
    *,
    only: str | None = None,
    seeds: int | Sequence[int] = 3,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    work: Work = execute_at,
    **settings: Any,
) -> Reproduction:
    """Run the problems of a table, or one of them, with each algorithm; ours beside the printed.

    With ``out`` naming an earlier reproduction, whatever of it is finished is used again.
    """
    about = TABLES[table]
    if only is not None and only not in about.problems:
        raise unknown(f"problem of {table}", only, about.problems)
    entries = list(rows or about.rows)
    for entry in entries:
        if entry not in about.rows:
            raise unknown("row of this table", entry, about.rows)
    if about.across in settings:
        raise UserError(f"{about.across}: {table} says itself how many; leave it out.")
    path = Path(out) if out is not None else free_path(f"{table}-{only}" if only else table)

    def carried_out(place: Path, values: Mapping[str, Any], tell: OnRound) -> Comparison:
        wanted = {**settings, **values}
        if (place / PLAN).is_file():
            check_plan(place / PLAN, **wanted)
        else:
            start_comparison(algorithms=entries, seeds=seeds, out=place, **wanted)
        return run_plan(place, workers, tell, work)

    made = under_each(_parts(table, only), path, carried_out, on_round)
    results = {
        "table": table,
        "measure": "own_hypervolume",
        "across": about.across,
        "reference_point": next(iter(made.values())).results["reference_point"],
        "rows": [row for part in made.values() for row in _beside(table, entries, part)],
    }
    (path / f"{table}.json").write_text(json.dumps(results, indent=2) + "\n")
    return Reproduction(path, results, tuple(made.values()))


def _parts(table: str, only: str | None) -> dict[str, dict[str, Any]]:
    """The comparisons behind a table: what each differs in, by its directory."""
    if table == "praffl-2":
        return {name: {"problem": name} for name in DATA if only in (None, name)}
    if table == "praffl-3":
        return {f"clients-{n}": {"problem": "praffl-synthetic", "clients": n} for n in CLIENTS}
    return {"splits": {"problem": "praffl-synthetic"}}


def _beside(table: str, entries: Sequence[str], made: Comparison) -> Iterator[dict[str, Any]]:
    problem = made.results["problem"]
    held = {row["algorithm"]: row for row in made.results["rows"]}
    for entry in entries:
        if entry not in held:
            raise UserError(f"{made.path}: it holds no runs of {entry}. Choose another directory.")
        row = held[entry]
        clients = made.runs[entry, row["preferences"]][0].configuration.clients
        yield {
            "problem": problem,
            "clients": clients,
            **({"split": SPLITS[entry]} if entry in SPLITS else {}),
            "algorithm": entry,
            "centralised": row["centralised"],
            "seeds": row["seeds"],
            "printed": {"mean": printed(table, problem, clients).get(entry), "std": None},
            "ours": row["metrics"]["own_hypervolume"],
            "trivial": row["trivial"]["own_hypervolume"],
            "reference": reference_hypervolume() if problem == "praffl-synthetic" else None,
        }
