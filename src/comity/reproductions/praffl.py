"""The tables and figures of PraFFL beside our own: `comity reproduce praffl-2`.

A cell is the hypervolume per client from (0, 0) on accuracy and 1 - D, which equals the paper's
from (1, 1) on error and D. Every algorithm keeps the round that is best on validation, as in the
paper. Table 2 also prints the time of training. Of figures 6 to 10 the paper has only pictures,
and of theorem 5.8 a proof: `comity.reproductions.praffl_spans` measures what they claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from comity.datasets.synthetic import reference_hypervolume
from comity.errors import UserError, unknown
from comity.reproductions.campaign import RUNS, Campaign, check_entries, models_of
from comity.reproductions.praffl_spans import Shows, span_measures
from comity.reproductions.printed import Needs, choose_rows, read_printed
from comity.runs.compare import Comparison, seed_list
from comity.runs.spreads import spread

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
LEVELS = ("even", "paper", "strong")
"""Partitions of the synthetic people among three clients, from alike to most unlike."""
SPLITS = {f"praffl[split={split}]": split for split in (0.1, 0.3, 0.5, 0.7, 0.9)}
"""The share of local training that the communicated network gets, by entry of a comparison."""
PUBLIC: dict[str, dict[str, str]] = {
    "lft-ensemble": {"balancing": "public"},
    "lft-fedavg": {"average": "public", "balancing": "public"},
    "fairfed": {"average": "public", "balancing": "public"},
    "fedfb": {"average": "public"},
    "praffl": {"weighting": "public"},
}
"""Settings under which algorithms have known defects of the public code."""


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
    """Setting that the table varies; None: one panel per problem."""
    shows: Shows | None = None
    """Measure beside the hypervolume."""


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
    "praffl-5.8": Printed(
        None,
        "PraFFL's convergence (theorem 5.8): validation hypervolume by round, and its rate",
        (*DATA,),
        ("praffl",),
        shows="rounds",
    ),
    "praffl-6": Printed(
        None,
        "PraFFL and its baselines (figure 6): fronts, and how many solutions nobody dominates",
        (*DATA,),
        (*ALGORITHMS,),
        shows="fronts",
    ),
    "praffl-7": Printed(
        None,
        "PraFFL's split between its two phases (figure 7): hypervolume, width and distance",
        (*DATA,),
        (*SPLITS,),
        "split",
        "splits",
    ),
    "praffl-8": Printed(
        None,
        "PraFFL's map of preferences (figure 8): how steadily outcomes follow, how many differ",
        (*DATA,),
        ("praffl",),
        shows="responses",
    ),
    "praffl-9": Printed(
        None,
        "PraFFL and its baselines with clients ever more unlike (figure 9): fronts, as praffl-6",
        ("praffl-synthetic",),
        (*ALGORITHMS,),
        "partition",
        "fronts",
    ),
    "praffl-10": Printed(
        None,
        "PraFFL's losses beside its metrics (figure 10): both fronts at the same preferences",
        (*DATA,),
        ("praffl",),
        shows="losses",
    ),
}

RUN_HOURS = {
    "praffl-synthetic": 20 / 3600,
    "praffl-compas": 25 / 3600,
    "praffl-bank": 90 / 3600,
    "praffl-adult": 120 / 3600,
}
"""CPU hours of one run: estimates from measured runs on synthetic data and the size of the data."""


def printed(
    table: str, problem: str, clients: int, metric: str = "hypervolume"
) -> dict[str, float]:
    """Return a printed figure by algorithm; table 2 has each problem's default clients.

    Args:
        table: One of `TABLES`.
        problem: The problem.
        clients: Number of clients.
        metric: ``hypervolume`` or ``training_time_hours``, which only table 2 has.
    """
    file = TABLES[table].file
    if file is None:
        return {}
    names = {name: algorithm for algorithm, name in ALGORITHMS.items()}
    return {
        names[row["algorithm"]]: mean
        for row, (mean, _) in read_printed(file, DATA[problem])
        if row["metric"] == metric
        and (table == "praffl-2" or row["setting"] == f"clients={clients}")
    }


def plan(
    table: str,
    *,
    only: str | None = None,
    seeds: int | Sequence[int] = 3,
    rows: Sequence[str] | None = None,
    reading: Literal["meant", "public"] = "meant",
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan the problems of a table, or one of them, with each algorithm.

    Args:
        table: One of `TABLES`.
        only: The problem; None: all of the table.
        seeds: Number of seeds, or the seeds.
        rows: Some of the table's rows; None: all.
        reading: Rules as meant, or with the known defects of the public code.
        **settings: Settings of all runs.
    """
    about = TABLES[table]
    if only is not None and only not in about.problems:
        raise unknown(f"problem of {table}", only, about.problems)
    if reading not in ("meant", "public"):
        raise unknown("reading", str(reading), ("meant", "public"))
    entries = choose_rows(rows, about.rows)
    names = {entry.partition("[")[0] for entry in entries}
    defects = {name: values for name, values in PUBLIC.items() if name in names}
    if reading == "public":
        public = {name: {**table, **settings.get(name, {})} for name, table in defects.items()}
        settings = {**settings, **public}
    if about.across in settings:
        raise UserError(f"{about.across}: {table} has its own; leave it out.")
    common = {**settings, "algorithms": entries, "seeds": seeds}
    plans = {name: {**common, **values} for name, values in _parts(table, only).items()}
    checked = {*settings, *defects, *next(iter(_parts(table, only).values()))}

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return {
            "table": table,
            "measure": "own_hypervolume",
            "across": about.across,
            **({} if about.shows is None else {"shows": about.shows}),
            "reading": reading,
            "models": {"printed": "kept", "ours": models_of(*comparisons.values())},
            "reference_point_source": "the paper's, (1, 1) on error and D",
            "reference_point": next(iter(comparisons.values())).results["reference_point"],
            "rows": [row for part in comparisons.values() for row in _rows(table, entries, part)],
            "seconds": [
                time for part in comparisons.values() for time in _seconds(table, entries, part)
            ],
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
    across = TABLES[table].across
    if across == "clients":
        return {f"clients-{n}": {"problem": "praffl-synthetic", "clients": n} for n in CLIENTS}
    if across == "partition":
        return {level: {"problem": "praffl-synthetic", "partition": level} for level in LEVELS}
    place = "splits-{}" if across == "split" else "{}"
    return {place.format(name): {"problem": name} for name in DATA if only in (None, name)}


def _rows(table: str, entries: Sequence[str], comparison: Comparison) -> Iterator[dict[str, Any]]:
    problem = comparison.results["problem"]
    rows = {row["algorithm"]: row for row in comparison.results["rows"]}
    check_entries(comparison, entries)
    runs = {entry: comparison.runs[entry, rows[entry]["preferences"]] for entry in entries}
    shows = TABLES[table].shows
    measures = {} if shows is None else span_measures(shows, runs)
    for entry in entries:
        row, configuration = rows[entry], runs[entry][0].configuration
        clients = configuration.clients
        yield {
            "problem": problem,
            "clients": clients,
            "partition": configuration.partition,
            **({"split": SPLITS[entry]} if entry in SPLITS else {}),
            "algorithm": entry,
            "centralised": row["centralised"],
            "seeds": row["seeds"],
            "printed": {"mean": printed(table, problem, clients).get(entry), "std": None},
            "ours": row["metrics"]["own_hypervolume"],
            "trivial": row["trivial"]["own_hypervolume"],
            "reference": reference_hypervolume() if problem == "praffl-synthetic" else None,
            **measures.get(entry, {}),
        }


def _seconds(
    table: str, entries: Sequence[str], comparison: Comparison
) -> Iterator[dict[str, Any]]:
    """Yield the time of training of each row, from the runs' timing, beside the printed one."""
    problem = comparison.results["problem"]
    rows = {row["algorithm"]: row for row in comparison.results["rows"]}
    for entry in entries:
        runs = comparison.runs[entry, rows[entry]["preferences"]]
        hours = printed(table, problem, runs[0].configuration.clients, "training_time_hours")
        seconds = [sum(run.spent.values()) for run in runs]
        yield {
            "ours": spread(seconds),
            "printed": 3600 * hours[entry] if entry in hours else None,
        }
