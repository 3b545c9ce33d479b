"""Two clients with two tasks, federated and alone: `comity reproduce thesis-5.1`.

The experiment of the thesis' section 5.1: two clients with half of the pictures each weigh the
left digit and the right one with (p, 1 - p) and (1 - p, p), p = 0, 0.1, …, 0.9, five times,
federated with FedAvg or alone, with the same settings otherwise. The thesis has a picture only
(figure 5.1). Models are those of the last round, evaluated on each client's own test pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comity.core.pareto import hypervolume
from comity.errors import UserError, unknown
from comity.problems import find as find_problem
from comity.reproductions.campaign import RUNS, Campaign, runs_of
from comity.reproductions.printed import Needs, choose_rows
from comity.runs.compare import Comparison, seed_list
from comity.runs.directory import Run
from comity.runs.spreads import spread

TABLES = {"thesis-5.1": "Two digits, two clients, alone and with FedAvg (a picture in the thesis)"}
PROBLEMS = ("multi-mnist", "multi-fashion")
ROWS = ("no-communication", "fedavg")
GRID = [[[tenth / 10, (10 - tenth) / 10], [(10 - tenth) / 10, tenth / 10]] for tenth in range(10)]
"""Preferences of the two clients, one matrix per setting."""
REPETITIONS = 5
RUN_HOURS = 0.04
"""CPU hours of one run: 30 rounds of one pass over 20,000 pictures, estimated from 15 rounds."""
NOTE = (
    "Nothing is printed: the thesis has a picture only (alone an arc of trade-offs, with FedAvg "
    "models close together and better)"
)


def plan(
    table: str,
    *,
    only: str = "multi-mnist",
    seeds: int | Sequence[int] = REPETITIONS,
    rows: Sequence[str] | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan ten settings of opposite preferences, each repeated with several seeds.

    Args:
        table: One of `TABLES`.
        only: One of `PROBLEMS`.
        seeds: Number of seeds, or the seeds.
        rows: Some of `ROWS`; None: both.
        **settings: Settings of all runs.
    """
    if only not in PROBLEMS:
        raise unknown(f"problem of {table}", only, PROBLEMS)
    for name in ("clients", "preferences"):
        if name in settings:
            raise UserError(f"{name}: {table} has its own; leave it out.")
    entries = choose_rows(rows, ROWS)
    fixed = {"keep": "last", **settings, "problem": only, "clients": 2, "preferences": GRID}
    plans = {"": {**fixed, "algorithms": entries, "seeds": seeds}}

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return _tabulate(table, only, entries, comparisons[""])

    return Campaign(RUNS, f"{table}-{only}", plans, tabulate, checked=tuple(fixed))


def needs(table: str) -> Needs:
    """Return contents and cost of the experiment."""
    (values,) = plan(table).plans.values()
    seeds = len(seed_list(values["seeds"]))
    hours = RUN_HOURS * len(values["algorithms"]) * len(GRID) * seeds
    return Needs(TABLES[table], dict.fromkeys(PROBLEMS, hours), seeds)


def _tabulate(
    table: str, problem: str, entries: Sequence[str], comparison: Comparison
) -> dict[str, Any]:
    rows, point = [], find_problem(problem).reference_point
    for entry in entries:
        rows.append({"algorithm": entry, **_measures(runs_of(comparison, entry), point)})
    return {
        "table": table,
        "problem": problem,
        "measure": "two_tasks",
        "note": NOTE,
        "reference_point": list(point),
        "rows": rows,
    }


def _measures(runs: Sequence[Run], point: Sequence[float]) -> dict[str, Any]:
    """Return every model's accuracies, their ranges over weights, and the hypervolume per seed."""
    points = [
        {
            "weight": round(float(weight), 6),
            "seed": run.configuration.seed,
            "left": left,
            "right": right,
        }
        for run in runs
        for weight, (left, right) in zip(
            run.configuration.get_preferences()[:, 0], run.vectors_last.tolist(), strict=True
        )
    ]
    weights = sorted({point["weight"] for point in points})
    left = {w: float(np.mean([p["left"] for p in points if p["weight"] == w])) for w in weights}
    inner = [value for weight, value in left.items() if 0 < weight < 1]
    seeds = sorted({run.configuration.seed for run in runs})
    volumes = [
        hypervolume(
            np.concatenate([run.vectors_last for run in runs if run.configuration.seed == seed]),
            point,
        )
        for seed in seeds
    ]
    return {
        "seeds": seeds,
        "left": [min(left.values()), max(left.values())],
        "left_inner": [min(inner), max(inner)],
        "hypervolume": spread(volumes),
        "points": points,
    }
