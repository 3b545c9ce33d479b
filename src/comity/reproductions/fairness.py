"""The printed tables of the fairness benchmark: `comity reproduce thesis-5.4`.

Homogeneous tables: ten runs over a grid of weights that all clients share; a run's point is the
mean over its clients. Heterogeneous tables: ten runs in which every client draws its own
preference; every client is a point. A cell is the hypervolume of all points that are not trivially
fair, from (0, 0). Validation costs no steps here, so one campaign shows both protocols: the last
models, as the thesis, and the best validated ones.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from comity.core.typing import OnRound
from comity.errors import UserError, unknown
from comity.problems import Problem
from comity.problems import find as find_problem
from comity.reproductions.printed import Reproduction, check_plan, read_printed
from comity.runs.compare import PLAN, Comparison, run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.execute import execute_at, free_path
from comity.runs.parallel import Work


@dataclass(frozen=True)
class Printed:
    """A printed table: its file, how many clients, whether they share a preference, metrics."""

    file: str
    clients: int
    homogeneous: bool
    metrics: tuple[str, ...]


TABLES = {
    "thesis-5.2": Printed("thesis_table_5_2_fairness_hv.csv", 10, True, ("eo",)),
    "thesis-5.3": Printed("thesis_table_5_3_fairness_hv.csv", 10, True, ("dp",)),
    "thesis-5.4": Printed("thesis_table_5_4_fairness_hv.csv", 10, False, ("eo",)),
    "thesis-5.5": Printed("thesis_table_5_5_fairness_hv.csv", 10, False, ("dp",)),
    "thesis-A.17": Printed("thesis_table_A_17_fairness_hv_50clients.csv", 50, True, ("eo", "dp")),
    "thesis-A.20": Printed("thesis_table_A_20_fairness_hv_50clients.csv", 50, False, ("eo", "dp")),
}
DATA = {
    "adult-gender": "Adult - Gender",
    "adult-race": "Adult - Race",
    "law-school-gender": "Law School - Gender",
    "law-school-race": "Law School - Race",
    "credit-default-gender": "Default - Gender",
}
METRICS = {"eo": "hypervolume(accuracy,1-DEO)", "dp": "hypervolume(accuracy,1-DDP)"}
ALGORITHMS = {
    "fedprox": "FedProx",
    "cfl": "CFL",
    "fedcmoo-pref": "FedCMOO",
    "fedpref": "FedPref",
    "no-communication": "No comm.",
}
FINE_TUNED = {
    "fedprox": "law-school-gender-eo law-school-race-eo adult-gender-dp adult-race-dp "
    "credit-default-gender-dp",
    "cfl": "adult-gender-eo adult-race-eo credit-default-gender-eo adult-gender-dp "
    "credit-default-gender-dp",
    "fedcmoo-pref": "law-school-race-eo",
    "fedpref": "law-school-gender-eo law-school-race-eo adult-gender-dp adult-race-dp "
    "law-school-gender-dp law-school-race-dp",
}
"""Where the thesis' grid search chose a round of fine-tuning."""

GRID = [f"same:{accuracy / 10:g},{1 - accuracy / 10:g}" for accuracy in range(10)]
"""Weights of accuracy and fairness; pure accuracy is never run."""
RUNS = 10


def problems_of(table: str) -> list[str]:
    """The problems that a table has rows of."""
    return [f"{data}-{metric}" for data in DATA for metric in TABLES[table].metrics]


def printed(table: str, problem: str) -> dict[str, float]:
    """Printed hypervolume by algorithm."""
    data, _, metric = problem.rpartition("-")
    names = {name: algorithm for algorithm, name in ALGORITHMS.items()}
    return {
        names[row["algorithm"]]: mean
        for row, (mean, _) in read_printed(TABLES[table].file, DATA[data])
        if row["metric"] == METRICS[metric]
    }


def reproduce_fairness(
    table: str,
    *,
    only: str | None = None,
    seeds: int | Sequence[int] | None = None,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    work: Work = execute_at,
    **settings: Any,
) -> Reproduction:
    """Run one problem of a printed table with each algorithm; ours beside the printed values.

    ``seeds`` are the runs of a heterogeneous table (ten in the thesis) or the repetitions of a
    homogeneous one's grid (one). With ``out`` naming an earlier reproduction, whatever of it is
    finished is used again.
    """
    about = TABLES[table]
    only = only or problems_of(table)[0]
    if only not in problems_of(table):
        raise unknown(f"problem of {table}", only, problems_of(table))
    chosen = list(rows or ALGORITHMS)
    for row in chosen:
        if row not in ALGORITHMS:
            raise unknown("row of this table", row, ALGORITHMS)
    entries = {row: row + "+ft" * (only in FINE_TUNED.get(row, "").split()) for row in chosen}
    path = Path(out) if out is not None else free_path(f"{table}-{only}")
    settings = {"clients": about.clients, **settings}
    preferences = GRID if about.homogeneous else ["dirichlet"]
    if (path / PLAN).is_file():
        check_plan(path / PLAN, problem=only, preferences=preferences, **settings)
    else:
        start_comparison(
            only,
            algorithms=list(entries.values()),
            seeds=seeds or (1 if about.homogeneous else RUNS),
            preferences=preferences,
            out=path,
            **settings,
        )
    made = run_plan(path, workers, on_round, work)
    results = _beside(table, only, entries, made)
    (path / f"{table}.json").write_text(json.dumps(results, indent=2) + "\n")
    return Reproduction(path, results, (made,))


def _beside(table: str, only: str, entries: dict[str, str], made: Comparison) -> dict[str, Any]:
    figures, rows = printed(table, only), []
    problem = find_problem(only)
    for algorithm, entry in entries.items():
        runs = [run for (name, _), group in made.runs.items() if name == entry for run in group]
        if not runs:
            raise UserError(f"{made.path}: it holds no runs of {entry}. Choose another directory.")
        both = {
            protocol: _measured(problem, runs, last, TABLES[table].homogeneous)
            for protocol, last in (("paper_protocol", True), ("our_defaults", False))
        }
        ours = both["our_defaults"]
        rows.append(
            {
                "algorithm": entry,
                "preferences": "same" if TABLES[table].homogeneous else "dirichlet",
                "seeds": sorted({run.configuration.seed for run in runs}),
                **{
                    protocol: {"mean": measures["hypervolume"], "std": None}
                    for protocol, measures in both.items()
                },
                "printed": {"mean": figures[algorithm], "std": None},
                "trivial": float(np.mean([run.results["trivial"]["accuracy"] for run in runs])),
                "optimum": None,
                "points": len(runs) * (1 if TABLES[table].homogeneous else len(runs[0].vectors)),
                "dropped": {protocol: measures["dropped"] for protocol, measures in both.items()},
                "strict_hypervolume": ours["strict_hypervolume"],
            }
        )
    first = next(iter(made.runs.values()))[0].results
    return {
        "table": table,
        "problem": only,
        "measure": "hypervolume",
        "reference_point": first["reference_point"],
        "strict_reference_point": first["strict_reference_point"],
        "rows": rows,
    }


def _measured(
    problem: Problem, runs: Sequence[Run], last: bool, homogeneous: bool
) -> dict[str, float]:
    """Measures of the points of a table's cell."""
    points, weights = [], []
    for run in runs:
        vectors = run.vectors_last if last else run.vectors
        preferences = run.configuration.get_preferences()
        points.append(np.nanmean(vectors, axis=0, keepdims=True) if homogeneous else vectors)
        weights.append(preferences[:1] if homogeneous else preferences)
    return problem.measures(np.concatenate(points), np.concatenate(weights))
