"""The printed tables of FedPref and its baselines: `comity reproduce thesis-4.1`.

Every variant of a printed table is run twice: under the paper's protocol (the last model counts,
no guard) and under our defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comity.errors import UserError, unknown
from comity.reproductions.campaign import RUNS, Campaign
from comity.reproductions.printed import choose_rows, read_printed
from comity.runs.compare import Comparison
from comity.runs.schema import ComparisonRow

TABLES = {
    "thesis-4.1": ("thesis_table_4_1_mean_scalarised_reward.csv", "mean_scalarised"),
    "thesis-4.3": ("thesis_table_4_3_hypervolume.csv", "hypervolume"),
    "thesis-4.4": ("thesis_table_4_4_sparsity.csv", "sparsity"),
    "thesis-4.5": ("thesis_table_4_5_igd.csv", "igd"),
    "thesis-4.6": ("thesis_table_4_6_cardinality.csv", "cardinality"),
}
"""Printed tables: file and printed measure. All five come from the same runs."""

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
    """Return printed mean and spread by (variant, distribution), in true units."""
    if problem not in PROBLEMS:
        raise unknown("problem of this table", problem, PROBLEMS)
    names = {name: variant for variant, name in VARIANTS.items()}
    rows = read_printed(TABLES[table][0], PROBLEMS[problem])
    return {(names[row["algorithm"]], row["setting"]): figures for row, figures in rows}


def plan(
    table: str,
    *,
    only: str = "deep-sea-treasure",
    seeds: int | Sequence[int] = 3,
    preferences: Sequence[str] = DISTRIBUTIONS,
    rows: Sequence[str] | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan a table of federations: its variants under both protocols.

    All tables come from the same runs, so in one directory a second table costs nothing.

    Args:
        table: One of `TABLES`.
        only: The problem.
        seeds: Number of seeds, or the seeds.
        preferences: Some of `DISTRIBUTIONS`.
        rows: Some of `VARIANTS`; None: all.
        **settings: Settings of all runs.
    """
    figures = printed(table, only)
    entries = choose_rows(rows, VARIANTS)
    for distribution in preferences:
        if distribution not in DISTRIBUTIONS:
            raise unknown("distribution of this table", distribution, DISTRIBUTIONS)
    common = {**settings, "problem": only, "algorithms": entries, "seeds": seeds}
    plans = {
        name: {**common, "preferences": list(preferences), **protocol}
        for name, protocol in PROTOCOLS.items()
    }

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return _tabulate(table, only, figures, comparisons)

    return Campaign(RUNS, f"{table}-{only}", plans, tabulate, checked=("problem",))


def _tabulate(
    table: str,
    problem: str,
    figures: Mapping[tuple[str, str], tuple[float, float]],
    comparisons: Mapping[str, Comparison],
) -> dict[str, Any]:
    measure = TABLES[table][1]
    paper, ours = comparisons["paper"].results, comparisons["ours"].results
    if [_key(row) for row in paper["rows"]] != [_key(row) for row in ours["rows"]]:
        path = comparisons["paper"].path.parent
        raise UserError(f"{path}: its two protocols hold different runs.")
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


def _key(row: ComparisonRow) -> tuple[str, str]:
    return row["algorithm"], row["preferences"]
