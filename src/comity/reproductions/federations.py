"""The printed tables of FedPref and its baselines: `comity reproduce thesis-4.1`.

Every variant of a printed table is run twice: under the paper's protocol (the last model counts,
no guard) and under our defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comity.core.typing import OnRound
from comity.errors import UserError, unknown
from comity.reproductions.printed import (
    Reproduction,
    check_plan,
    read_printed,
    under_each,
)
from comity.runs.compare import PLAN, Comparison, run_plan, start_comparison
from comity.runs.execute import execute_at, free_path
from comity.runs.parallel import Work

TABLES = {
    "thesis-4.1": ("thesis_table_4_1_mean_scalarised_reward.csv", "mean_scalarised"),
    "thesis-4.3": ("thesis_table_4_3_hypervolume.csv", "hypervolume"),
    "thesis-4.4": ("thesis_table_4_4_sparsity.csv", "sparsity"),
    "thesis-4.5": ("thesis_table_4_5_igd.csv", "igd"),
    "thesis-4.6": ("thesis_table_4_6_cardinality.csv", "cardinality"),
}
"""Printed tables: file and the measure that it prints. All five come from the same runs."""

PROBLEMS = {
    "deep-sea-treasure": "DST",
    "minecart-deterministic": "DMC",
    "lunar-lander": "MO-LL",
    "lunar-lander-continuous": "MO-LLc",
    "halfcheetah": "MO-HC",
}
VARIANTS = {
    "no-communication": "No comm.",
    "fedavg": "FedAvg",
    "fedavg+ft": "FedAvg+FT",
    "fedprox": "FedProx",
    "fedprox+ft": "FedProx+FT",
    "cfl": "CFL",
    "cfl+ft": "CFL+FT",
    "matfl": "MaTFL",
    "fedpref+ft": "FedPref+FT",
    "fedpref": "FedPref-FT",
}
DISTRIBUTIONS = ("dirichlet", "equidistant", "gaussian")
PROTOCOLS: dict[str, dict[str, Any]] = {"paper": {"keep": "last", "guard": False}, "ours": {}}


def printed(table: str, problem: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Printed mean and spread by (variant, distribution), in true units."""
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    if problem not in PROBLEMS:
        raise unknown("problem of this table", problem, PROBLEMS)
    names = {name: variant for variant, name in VARIANTS.items()}
    rows = read_printed(TABLES[table][0], PROBLEMS[problem])
    return {(names[row["algorithm"]], row["setting"]): figures for row, figures in rows}


def reproduce(
    table: str,
    *,
    only: str = "deep-sea-treasure",
    seeds: int | Sequence[int] = 3,
    preferences: Sequence[str] = DISTRIBUTIONS,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    work: Work = execute_at,
    **settings: Any,
) -> Reproduction:
    """Run a printed table's variants under both protocols; ours beside the printed values.

    With ``out`` naming an earlier reproduction, whatever of it is finished is used again, so
    another table of the same runs costs nothing.
    """
    figures = printed(table, only)
    entries = list(rows or VARIANTS)
    for entry in entries:
        if entry not in VARIANTS:
            raise unknown("row of this table", entry, VARIANTS)
    for distribution in preferences:
        if distribution not in DISTRIBUTIONS:
            raise unknown("distribution of this table", distribution, DISTRIBUTIONS)
    path = Path(out) if out is not None else free_path(f"{table}-{only}")

    def carried_out(place: Path, values: Mapping[str, Any], tell: OnRound) -> Comparison:
        if (place / PLAN).is_file():
            check_plan(place / PLAN, problem=only)
        else:
            start_comparison(
                only,
                algorithms=entries,
                seeds=seeds,
                preferences=list(preferences),
                out=place,
                **{**settings, **values},
            )
        return run_plan(place, workers, tell, work)

    made = under_each(PROTOCOLS, path, carried_out, on_round)
    results = _beside(table, only, figures, made)
    (path / f"{table}.json").write_text(json.dumps(results, indent=2) + "\n")
    return Reproduction(path, results, tuple(made.values()))


def _beside(
    table: str,
    problem: str,
    figures: Mapping[tuple[str, str], tuple[float, float]],
    made: Mapping[str, Comparison],
) -> dict[str, Any]:
    measure = TABLES[table][1]
    paper, ours = made["paper"].results, made["ours"].results
    if [_key(row) for row in paper["rows"]] != [_key(row) for row in ours["rows"]]:
        raise UserError(f"{made['paper'].path.parent}: its two protocols hold different runs.")
    rows = []
    for literal, default in zip(paper["rows"], ours["rows"], strict=True):
        mean, std = figures[_key(literal)]
        rows.append(
            {
                "algorithm": literal["algorithm"],
                "preferences": literal["preferences"],
                "seeds": literal["seeds"],
                "paper_protocol": literal["metrics"][measure],
                "our_defaults": default["metrics"][measure],
                "printed": {"mean": mean, "std": std},
                "trivial": literal["trivial"].get(measure),
                "optimum": literal.get("optimum", {}).get(measure),
            }
        )
    return {
        "table": table,
        "problem": problem,
        "measure": measure,
        "reference_point": paper["reference_point"],
        "rows": rows,
    }


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["algorithm"], row["preferences"]
