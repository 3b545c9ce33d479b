"""The printed tables of the fairness benchmark: `comity reproduce thesis-5.4`.

Homogeneous tables: ten runs over a grid of weights that all clients share; each run is a point,
the mean over its clients. Heterogeneous tables: ten runs in which every client draws its own
preference; each client is a point. A cell is the hypervolume of all points that are not trivially
fair, from (0, 0); beside it stand the hypervolumes of the fronts of lower ranks, which outliers do
not decide. Losses, rows and preferences are the thesis', by the preset ``thesis-fairness``: rows
are dealt by chance alone, and each loss is divided by its initial value.
Validation costs no steps here, so the same runs show both protocols: the last models, as in the
thesis, and the best validated ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comity.core.pareto import hypervolume, ranked_front
from comity.core.typing import FloatArray
from comity.errors import UserError, unknown
from comity.problems import Problem
from comity.problems import find as find_problem
from comity.reproductions.campaign import RUNS, Campaign, runs_of
from comity.reproductions.printed import Needs, choose_rows, read_printed
from comity.runs.compare import Comparison, seed_list
from comity.runs.directory import Run


@dataclass(frozen=True)
class Printed:
    """A printed table."""

    file: str
    clients: int
    homogeneous: bool
    """Whether all clients share a preference."""
    metrics: tuple[str, ...]
    """The fairness metrics that it has rows of."""


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
FAIRNESS = {"eo": "equal opportunity", "dp": "parity"}
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
"""Problems for which the thesis' grid search chose a round of fine-tuning, by algorithm."""

PRESET = "thesis-fairness"
"""Named preset of all runs."""
PROTOCOLS = {"paper_protocol": True, "our_defaults": False}
"""Whether a column of our table is about last models."""
RANKS = 4
"""Largest number of fronts whose hypervolumes are reported: the front and those behind it."""

GRID = [f"same:{accuracy / 10:g},{1 - accuracy / 10:g}" for accuracy in range(10)]
"""Weights of accuracy and fairness; pure accuracy is left out."""
RUNS_IN_THESIS = 10
RUN_HOURS = {10: 14 / 3600, 50: 72 / 3600}
"""CPU hours of one run by number of clients: measured with 10, estimated with 50."""

REFERENCE_POINT = (
    "derived: the thesis prints none for chapter 5; all its hypervolumes fit its ranges from (0, 0)"
)


def problems_of(table: str) -> list[str]:
    """Return the problems that a table has rows of."""
    return [f"{data}-{metric}" for data in DATA for metric in TABLES[table].metrics]


def printed(table: str, problem: str) -> dict[str, float]:
    """Return printed hypervolume by algorithm."""
    data, _, metric = problem.rpartition("-")
    names = {name: algorithm for algorithm, name in ALGORITHMS.items()}
    return {
        names[row["algorithm"]]: mean
        for row, (mean, _) in read_printed(TABLES[table].file, DATA[data])
        if row["metric"] == METRICS[metric]
    }


def plan(
    table: str,
    *,
    only: str | None = None,
    seeds: int | Sequence[int] | None = None,
    rows: Sequence[str] | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan one problem of a table of the fairness benchmark, with each algorithm.

    Args:
        table: One of `TABLES`.
        only: The problem; None: the first of the table.
        seeds: Number of seeds, or the seeds: the runs of a heterogeneous table (ten in the
            thesis), the repetitions of the grid of a homogeneous one (one in the thesis).
        rows: Some of `ALGORITHMS`; None: all.
        **settings: Settings of all runs.
    """
    about = TABLES[table]
    problem = only or problems_of(table)[0]
    if problem not in problems_of(table):
        raise unknown(f"problem of {table}", problem, problems_of(table))
    if "preferences" in settings:
        raise UserError(f"preferences: {table} has its own; leave them out.")
    entries = entries_of(problem, rows)
    fixed = {
        "problem": problem,
        "preferences": GRID if about.homogeneous else ["dirichlet"],
        "clients": about.clients,
        "preset": PRESET,
        **settings,
    }
    seeds = seeds or (1 if about.homogeneous else RUNS_IN_THESIS)
    plans = {"": {**fixed, "algorithms": list(entries.values()), "seeds": seeds}}

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return _tabulate(table, problem, entries, comparisons[""])

    return Campaign(RUNS, f"{table}-{problem}", plans, tabulate, checked=tuple(fixed))


def needs(table: str) -> Needs:
    """Return contents and cost of a table."""
    about = TABLES[table]
    hours = {}
    for problem in problems_of(table):
        (values,) = plan(table, only=problem).plans.values()
        seeds = len(seed_list(values["seeds"]))
        runs = len(values["algorithms"]) * len(values["preferences"]) * seeds
        hours[problem] = runs * RUN_HOURS[about.clients]
    kind = "one preference for all clients" if about.homogeneous else "a preference per client"
    fairness = " and ".join(FAIRNESS[metric] for metric in about.metrics)
    title = f"Accuracy against {fairness}, {about.clients} clients, {kind}: hypervolume"
    return Needs(title, hours, seeds)


def entries_of(problem: str, rows: Sequence[str] | None) -> dict[str, str]:
    """Return the entries of a comparison by row: fine-tuned where the thesis chose that.

    Args:
        problem: The problem.
        rows: Some of `ALGORITHMS`; None: all.
    """
    return {
        row: row + "+ft" * (problem in FINE_TUNED.get(row, "").split())
        for row in choose_rows(rows, ALGORITHMS)
    }


def points_of(runs: Sequence[Run], *, last: bool, homogeneous: bool) -> FloatArray:
    """Return the points of a cell: one per run, the mean over its clients, or one per client.

    Args:
        runs: Runs of one entry.
        last: Whether the points are those of the last models; otherwise of the kept ones.
        homogeneous: Whether the clients of each run share their preference.
    """
    vectors = [run.vectors_last if last else run.vectors for run in runs]
    if homogeneous:
        vectors = [np.nanmean(each, axis=0, keepdims=True) for each in vectors]
    return np.concatenate(vectors)


def _tabulate(
    table: str, name: str, entries: Mapping[str, str], comparison: Comparison
) -> dict[str, Any]:
    figures, rows = printed(table, name), []
    problem, homogeneous = find_problem(name), TABLES[table].homogeneous
    for algorithm, entry in entries.items():
        runs = runs_of(comparison, entry)
        points = {
            protocol: points_of(runs, last=last, homogeneous=homogeneous)
            for protocol, last in PROTOCOLS.items()
        }
        protocols = {
            protocol: _measures(problem, runs, each, homogeneous)
            for protocol, each in points.items()
        }
        rows.append(
            {
                "algorithm": entry,
                "preferences": "same" if homogeneous else "dirichlet",
                "seeds": sorted({run.configuration.seed for run in runs}),
                **{
                    protocol: {"mean": measures["hypervolume"], "std": None}
                    for protocol, measures in protocols.items()
                },
                "printed": {"mean": figures[algorithm], "std": None},
                "trivial": float(np.mean([run.results["trivial"]["accuracy"] for run in runs])),
                "optimum": None,
                "points": len(points["our_defaults"]),
                "dropped": {
                    protocol: measures["dropped"] for protocol, measures in protocols.items()
                },
                "strict_hypervolume": protocols["our_defaults"]["strict_hypervolume"],
                "ranks": {protocol: _by_rank(problem, each) for protocol, each in points.items()},
            }
        )
    first = next(iter(comparison.runs.values()))[0].results
    return {
        "table": table,
        "problem": name,
        "measure": "hypervolume",
        "models": {"printed": "last", "paper_protocol": "last", "our_defaults": "kept"},
        "reference_point": first["reference_point"],
        "reference_point_source": REFERENCE_POINT,
        "strict_reference_point": first["strict_reference_point"],
        "rows": rows,
    }


def _measures(
    problem: Problem, runs: Sequence[Run], points: FloatArray, homogeneous: bool
) -> dict[str, float]:
    """Return the measures of all points in a cell of the table."""
    weights = [run.configuration.get_preferences() for run in runs]
    if homogeneous:
        weights = [preferences[:1] for preferences in weights]
    return problem.measures(points, np.concatenate(weights))


def _by_rank(problem: Problem, points: FloatArray) -> list[float]:
    """Return the hypervolume of the front and of those behind it, as long as points are left."""
    counted = points[problem.counts(points)]
    fronts = [ranked_front(counted, rank) for rank in range(RANKS)]
    left = [front for rank, front in enumerate(fronts) if rank == 0 or len(front)]
    return [hypervolume(front, problem.reference_point) for front in left]
