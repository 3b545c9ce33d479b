"""The tables of PraFFL beside our own figures: `comity reproduce praffl-2`.

A cell is the hypervolume per client from (0, 0) on accuracy and 1 - D, which equals the paper's
from (1, 1) on error and D. Every algorithm keeps the round that is best on validation, as in the
paper. For the split between the two phases (praffl-7) the paper has only a picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comity.datasets.synthetic import reference_hypervolume
from comity.errors import UserError, unknown
from comity.reproductions.campaign import RUNS, Campaign, models_of
from comity.reproductions.printed import Needs, choose_rows, read_printed
from comity.runs.compare import Comparison, seed_list

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
    """A printed table."""

    file: str | None
    """Its CSV file; None: the paper has only a picture."""
    title: str
    problems: tuple[str, ...]
    rows: tuple[str, ...]
    """Entries of a comparison."""
    across: str | None = None
    """The value of a row on the horizontal axis of our picture; None: one panel per problem."""


TABLES = {
    "praffl-2": Printed(
        "praffl_table_2_hv_time.csv",
        "PraFFL and its baselines: hypervolume per client",
        (*DATA,),
        (*ALGORITHMS,),
    ),
    "praffl-3": Printed(
        "praffl_table_3_clients.csv",
        "PraFFL and its baselines with 3, 10 and 20 clients: hypervolume per client",
        ("praffl-synthetic",),
        (*ALGORITHMS,),
        "clients",
    ),
    "praffl-7": Printed(
        None,
        "PraFFL's split between its two phases (the paper has a picture): hypervolume per client",
        ("praffl-synthetic",),
        (*SPLITS,),
        "split",
    ),
}

RUN_HOURS = {
    "praffl-synthetic": 20 / 3600,
    "praffl-compas": 25 / 3600,
    "praffl-bank": 90 / 3600,
    "praffl-adult": 120 / 3600,
}
"""CPU hours of one run: estimates from measured runs on synthetic data and the size of the data."""


def printed(table: str, problem: str, clients: int) -> dict[str, float]:
    """Return printed hypervolume by algorithm; table 2 has each problem's default clients."""
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


def plan(
    table: str,
    *,
    only: str | None = None,
    seeds: int | Sequence[int] = 3,
    rows: Sequence[str] | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan the problems of a table, or one of them, with each algorithm.

    Args:
        table: One of `TABLES`.
        only: The problem; None: all of the table.
        seeds: Number of seeds, or the seeds.
        rows: Some of the table's rows; None: all.
        **settings: Settings of all runs.
    """
    about = TABLES[table]
    if only is not None and only not in about.problems:
        raise unknown(f"problem of {table}", only, about.problems)
    entries = choose_rows(rows, about.rows)
    if about.across in settings:
        raise UserError(f"{about.across}: {table} has its own; leave it out.")
    common = {**settings, "algorithms": entries, "seeds": seeds}
    plans = {name: {**common, **values} for name, values in _parts(table, only).items()}
    checked = (*settings, *next(iter(_parts(table, only).values())))

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return {
            "table": table,
            "measure": "own_hypervolume",
            "across": about.across,
            "models": {"printed": "kept", "ours": models_of(*comparisons.values())},
            "reference_point_source": "the paper's, (1, 1) on error and D",
            "reference_point": next(iter(comparisons.values())).results["reference_point"],
            "rows": [row for part in comparisons.values() for row in _rows(table, entries, part)],
        }

    return Campaign(RUNS, f"{table}-{only}" if only else table, plans, tabulate, checked)


def needs(table: str) -> Needs:
    """Return contents and cost of a table."""
    hours: dict[str, float] = {}
    for values in plan(table).plans.values():
        problem, seeds = values["problem"], len(seed_list(values["seeds"]))
        runs = len(values["algorithms"]) * seeds
        hours[problem] = hours.get(problem, 0.0) + runs * RUN_HOURS[problem]
    return Needs(TABLES[table].title, hours, seeds)


def _parts(table: str, only: str | None) -> dict[str, dict[str, Any]]:
    """Return the settings in which the comparisons behind a table differ, by directory."""
    if table == "praffl-2":
        return {name: {"problem": name} for name in DATA if only in (None, name)}
    if table == "praffl-3":
        return {f"clients-{n}": {"problem": "praffl-synthetic", "clients": n} for n in CLIENTS}
    return {"splits": {"problem": "praffl-synthetic"}}


def _rows(table: str, entries: Sequence[str], comparison: Comparison) -> Iterator[dict[str, Any]]:
    problem = comparison.results["problem"]
    rows = {row["algorithm"]: row for row in comparison.results["rows"]}
    for entry in entries:
        if entry not in rows:
            raise UserError(
                f"{comparison.path}: it holds no runs of {entry}. Choose another directory."
            )
        row = rows[entry]
        clients = comparison.runs[entry, row["preferences"]][0].configuration.clients
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
