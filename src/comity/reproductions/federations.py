"""The printed tables of FedPref, its baselines and its parts: `comity reproduce thesis-4.1`.

Every variant of a printed table is run twice: under the paper's protocol (the last model counts,
no guard) and under our defaults (the best validated model counts); or under one of them only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comity.errors import UserError, unknown
from comity.reproductions.campaign import RUNS, Campaign, igd_reference, models_of
from comity.reproductions.printed import Needs, choose_rows, read_printed
from comity.runs.compare import Comparison, has_igd, seed_list, with_common_reference
from comity.runs.schema import ComparisonRow

PROBLEMS = {
    "deep-sea-treasure": "DST",
    "minecart-deterministic": "DMC",
    "lunar-lander": "MO-LL",
    "lunar-lander-continuous": "MO-LLc",
    "halfcheetah": "MO-HC",
}
RUN_HOURS = {
    "deep-sea-treasure": 0.028,
    "minecart-deterministic": 0.85,
    "lunar-lander": 0.86,
    "lunar-lander-continuous": 9.5,
    "halfcheetah": 14.0,
}
"""CPU hours of one run with the published budget: the first two measured, the others estimated
from the time per update."""

GUESS = "our guess: the thesis prints none for this problem"
REFERENCE_POINTS = {
    "deep-sea-treasure": "derived from the printed hypervolumes and IGD",
    "minecart-deterministic": "derived from the printed hypervolumes",
    "lunar-lander": GUESS,
    "lunar-lander-continuous": GUESS,
    "halfcheetah": GUESS,
}
"""Source of each problem's reference point: the thesis prints none for its chapter 4."""

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
PARTS = (
    "fedpref+ft[weighting=false]",
    "fedpref[weighting=false]",
    "fedpref+ft[clustering=false]",
    "fedpref[clustering=false]",
    "fedpref+ft",
    "fedpref",
)
"""FedPref with clustering only, with weighted aggregation only, and with both."""

SIMILARITIES = tuple(f"{tenth / 10:.1f}" for tenth in range(-10, 10, 2))
SHARES = tuple(f"{tenth / 10:.1f}" for tenth in range(2, 12, 2))
PROTOCOLS: dict[str, dict[str, Any]] = {"paper": {"keep": "last", "guard": False}, "ours": {}}
COLUMNS = {"paper": "paper_protocol", "ours": "our_defaults"}
"""Column of each protocol in our table."""


@dataclass(frozen=True)
class Printed:
    """A printed table."""

    file: str
    title: str
    measures: tuple[str, ...]
    """The printed measures."""
    variants: Mapping[str, str]
    """Printed name, or printed setting, by entry of a comparison."""
    distributions: tuple[str, ...] = DISTRIBUTIONS
    across: str | None = None
    """The setting that differs from row to row; None: the rows are algorithms."""
    note: str = ""
    """A known fault of the printed table."""


def _variants(names: Sequence[str]) -> dict[str, str]:
    return dict(zip(PARTS, names, strict=True))


TABLES = {
    "thesis-4.1": Printed(
        "thesis_table_4_1_mean_scalarised_reward.csv",
        "FedPref and its baselines: mean scalarised return",
        ("mean_scalarised",),
        VARIANTS,
    ),
    "thesis-4.2": Printed(
        "thesis_table_4_2_ablation_reward.csv",
        "Parts of FedPref: mean scalarised return",
        ("mean_scalarised",),
        _variants(
            [
                *("Clustering only + FT", "Clustering only - FT"),
                *("Weighted agg. only + FT", "Weighted agg. only - FT"),
                *("FedPref+FT (combined)", "FedPref-FT (combined)"),
            ]
        ),
        ("dirichlet",),
    ),
    "thesis-4.3": Printed(
        "thesis_table_4_3_hypervolume.csv",
        "FedPref and its baselines: hypervolume",
        ("hypervolume",),
        VARIANTS,
    ),
    "thesis-4.4": Printed(
        "thesis_table_4_4_sparsity.csv",
        "FedPref and its baselines: sparsity",
        ("sparsity",),
        VARIANTS,
    ),
    "thesis-4.5": Printed(
        "thesis_table_4_5_igd.csv", "FedPref and its baselines: IGD", ("igd",), VARIANTS
    ),
    "thesis-4.6": Printed(
        "thesis_table_4_6_cardinality.csv",
        "FedPref and its baselines: cardinality",
        ("cardinality",),
        VARIANTS,
    ),
    "thesis-4.7": Printed(
        "thesis_table_4_7_ablation_mo.csv",
        "Parts of FedPref: hypervolume, cardinality, sparsity and IGD",
        ("hypervolume", "cardinality", "sparsity", "igd"),
        _variants(
            [
                *("Clustering+FT", "Clustering-FT", "Weighted agg.+FT", "Weighted agg.-FT"),
                *("FedPref+FT", "FedPref-FT"),
            ]
        ),
        ("dirichlet",),
    ),
    "thesis-A.8": Printed(
        "thesis_table_A_8_min_similarity.csv",
        "FedPref's minimum similarity: mean scalarised return",
        ("mean_scalarised",),
        {
            f"fedpref+ft[minimum_similarity={s}]": f"dirichlet;min_similarity={s}"
            for s in SIMILARITIES
        },
        ("dirichlet",),
        "minimum_similarity",
        "Rows -1.0 and -0.8 are printed with equal spreads throughout: one of them must be wrong.",
    ),
    "thesis-A.9": Printed(
        "thesis_table_A_9_topR.csv",
        "FedPref's share of compared parameters: mean scalarised return",
        ("mean_scalarised",),
        {f"fedpref+ft[top_r={share}]": f"dirichlet;topR={share}" for share in SHARES},
        ("dirichlet",),
        "top_r",
        "Rows 0.2 and 0.4 are printed with equal spreads throughout: one of them must be wrong.",
    ),
}
"""Printed tables. Tables 4.1 and 4.3 to 4.6 come from the same runs, and so do 4.2 and 4.7."""

MEASURES = {"mean_scalarised_client_reward": "mean_scalarised"}
"""Our name of a measure by its name in the CSV files, where they differ."""

Key = tuple[str, str, str]
"""Variant, distribution, measure."""


def printed(table: str, problem: str) -> dict[Key, tuple[float, float]]:
    """Return printed mean and spread by (variant, distribution, measure), in true units."""
    return {key: figures for key, (_, figures) in _read(table, problem).items()}


def _read(table: str, problem: str) -> dict[Key, tuple[dict[str, str], tuple[float, float]]]:
    """Return the rows of the CSV file with mean and spread, by variant, distribution, measure."""
    if problem not in PROBLEMS:
        raise unknown("problem of this table", problem, PROBLEMS)
    about = TABLES[table]
    names = {name: variant for variant, name in about.variants.items()}
    rows = {}
    for row, figures in read_printed(about.file, PROBLEMS[problem]):
        name = row["algorithm"] if about.across is None else row["setting"]
        measure = MEASURES.get(row["metric"], row["metric"])
        distribution = row["setting"].partition(";")[0]
        rows[names[name], distribution, measure] = row, figures
    return rows


def plan(
    table: str,
    *,
    only: str = "deep-sea-treasure",
    seeds: int | Sequence[int] = 3,
    preferences: Sequence[str] | None = None,
    rows: Sequence[str] | None = None,
    protocol: str | None = None,
    **settings: Any,
) -> Campaign[Comparison]:
    """Plan a table of federations: its variants under both protocols, or one.

    Tables of the same variants come from the same runs, so in one directory a second table costs
    nothing.

    Args:
        table: One of `TABLES`.
        only: The problem.
        seeds: Number of seeds, or the seeds.
        preferences: Some of the table's distributions; None: all.
        rows: Some of the table's variants; None: all.
        protocol: One of `PROTOCOLS`; None: both.
        **settings: Settings of all runs.
    """
    about = TABLES[table]
    if protocol is not None and protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    printed(table, only)  # refuses a problem that the table does not have
    entries = choose_rows(rows, about.variants)
    distributions = list(preferences or about.distributions)
    for distribution in distributions:
        if distribution not in about.distributions:
            raise unknown("distribution of this table", distribution, about.distributions)
    common = {**settings, "problem": only, "algorithms": entries, "seeds": seeds}
    plans = {
        name: {**common, "preferences": distributions, **values}
        for name, values in PROTOCOLS.items()
        if protocol in (None, name)
    }

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return _tabulate(table, only, comparisons)

    return Campaign(
        RUNS,
        f"{table}-{only}",
        plans,
        tabulate,
        checked=("problem",),
        align=with_common_reference,
    )


def needs(table: str) -> Needs:
    """Return contents and cost of a table."""
    hours = {}
    for problem, cost in RUN_HOURS.items():
        plans = plan(table, only=problem).plans.values()
        runs = sum(
            len(each["algorithms"]) * len(each["preferences"]) * len(seed_list(each["seeds"]))
            for each in plans
        )
        hours[problem] = runs * cost
    return Needs(TABLES[table].title, hours, len(seed_list(next(iter(plans))["seeds"])))


def _tabulate(table: str, problem: str, comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    about, figures = TABLES[table], _read(table, problem)
    first = next(iter(comparisons.values()))
    path = first.path.parent
    protocols = {name: comparison.results["rows"] for name, comparison in comparisons.items()}
    if len({tuple(map(_key, rows)) for rows in protocols.values()}) > 1:
        raise UserError(f"{path}: its two protocols hold different runs.")
    rows, spreads = [], set()
    for measure in about.measures:
        for same in zip(*protocols.values(), strict=True):
            row = same[0]
            key = (*_key(row), measure)
            if key not in figures:
                raise UserError(
                    f"out: {path} holds runs of {key[0]}, which {table} does not have. Choose "
                    "another directory."
                )
            printed_row, (mean, std) = figures[key]
            spreads.add(printed_row["std_kind"].partition(" (")[0].partition(";")[0])
            rows.append(
                {
                    "measure": measure,
                    "algorithm": row["algorithm"],
                    "preferences": row["preferences"],
                    **_value(about, row["algorithm"]),
                    "seeds": row["seeds"],
                    **{
                        COLUMNS[name]: each["metrics"][measure]
                        for name, each in zip(protocols, same, strict=True)
                    },
                    "printed": {"mean": mean, "std": std},
                    "trivial": row["trivial"].get(measure),
                    "optimum": row.get("optimum", {}).get(measure),
                }
            )
    return {
        "table": table,
        "problem": problem,
        "measure": about.measures[0] if len(about.measures) == 1 else None,
        "across": about.across,
        "models": {
            "printed": "last",
            **{COLUMNS[name]: models_of(each) for name, each in comparisons.items()},
        },
        "spreads": {"printed": " or ".join(sorted(spreads)), "ours": "population std over seeds"},
        "reference_point": first.results["reference_point"],
        "reference_point_source": REFERENCE_POINTS[problem],
        **_igd_reference(about, comparisons),
        "note": about.note,
        "rows": rows,
    }


def _igd_reference(about: Printed, comparisons: Mapping[str, Comparison]) -> dict[str, str]:
    """Return the set from which IGD is measured, if the table prints IGD."""
    if "igd" not in about.measures:
        return {}
    every = [run for c in comparisons.values() for runs in c.runs.values() for run in runs]
    return igd_reference(None if has_igd(every[0]) else f"{len(every)} runs")


def _value(about: Printed, entry: str) -> dict[str, float]:
    """Return the setting that differs from row to row, if the table has one."""
    if about.across is None:
        return {}
    return {about.across: float(entry.rpartition("=")[2].removesuffix("]"))}


def _key(row: ComparisonRow) -> tuple[str, str]:
    return row["algorithm"], row["preferences"]
