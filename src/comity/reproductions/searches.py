"""The printed tables of MOFL/D beside our own figures: `comity reproduce thesis-3.2`.

Every row is searched twice: as printed (annealing, the last models, evaluated once at the end)
and under our defaults. The thesis trains 100,000 steps per candidate in 20 iterations; the default
here is smaller, with as many rounds: the steps between averagings shrink with the budget. Beside
every row stands its control: the same search with random weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comity.core.pareto import front, igd
from comity.errors import UserError, unknown
from comity.problems import find as find_problem
from comity.reproductions.campaign import SEARCHES, Campaign, igd_reference
from comity.reproductions.printed import Needs, choose_rows, read_printed
from comity.runs.compare import seed_list
from comity.runs.schema import Spread
from comity.runs.spreads import spread_of
from comity.searches.comparison import SearchComparison

TABLES = {
    "thesis-3.2": ("thesis_table_3_2_hv_sparsity.csv", ("hypervolume", "sparsity")),
    "thesis-3.3": ("thesis_table_3_3_igd.csv", ("igd",)),
}
"""Printed tables: file and printed measures. Both come from the same searches."""

ROWS = {
    f"{clients}/{steps // 1000}k{'/warm' if warm else ''}": (clients, steps, warm)
    for clients in (2, 3, 5)
    for steps in (2000, 5000, 10_000)
    for warm in (False, True)
} | {"alone": (1, 10_000, False)}
"""Clients, environment steps between averagings, warm start; ``alone`` is not federated."""

DEFAULT_ROWS = ("3/10k", "3/10k/warm", "alone")
PROTOCOLS: dict[str, dict[str, Any]] = {"paper": {"harvest": False, "keep": "last"}, "ours": {}}
COLUMNS = {
    "paper": ("paper_protocol", "random_control_paper"),
    "ours": ("our_defaults", "random_control"),
}
"""Columns of each protocol in our table: the row itself, and its control."""

PROBLEMS = {
    "deep-sea-treasure": ("DST", 100_000),
    "minecart-deterministic": ("DMC", 150_000),
    "lunar-lander": ("MO-LL", 100_000),
}
"""Printed name, and environment steps per client and candidate in the thesis."""

TITLES = {
    "thesis-3.2": "Searches by MOFL/D: hypervolume and sparsity",
    "thesis-3.3": "Searches by MOFL/D: IGD",
}
HOURS_PER_MILLION = {
    "deep-sea-treasure": 0.073,
    "minecart-deterministic": 0.22,
    "lunar-lander": 0.37,
}
"""CPU hours per million environment steps of all clients, estimated from single runs."""

REFERENCE_POINT = "thesis, table A.1"


def printed(table: str, problem: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Return printed mean and spread by (row, measure), in true units."""
    names = {
        f"n_c={clients};local_iter={steps};warm_start={str(warm).lower()}": row
        for row, (clients, steps, warm) in ROWS.items()
        if row != "alone"
    } | {"n_c=1;local_iter=none;warm_start=none": "alone"}
    rows = read_printed(TABLES[table][0], PROBLEMS[problem][0])
    return {(names[row["setting"]], row["metric"]): figures for row, figures in rows}


def plan(
    table: str,
    *,
    only: str = "deep-sea-treasure",
    seeds: int | Sequence[int] = 3,
    rows: Sequence[str] | None = None,
    protocol: str | None = None,
    **settings: Any,
) -> Campaign[SearchComparison]:
    """Plan a table of searches: its rows under both protocols, or one.

    Args:
        table: One of `TABLES`.
        only: The problem.
        seeds: Number of seeds, or the seeds.
        rows: Some of `ROWS`; None: `DEFAULT_ROWS`.
        protocol: One of `PROTOCOLS`; None: both.
        **settings: Settings of all searches.
    """
    if only not in PROBLEMS:
        raise unknown("problem of this table", only, PROBLEMS)
    if protocol is not None and protocol not in PROTOCOLS:
        raise unknown("protocol", protocol, PROTOCOLS)
    entries = {row: _entry(row, only, settings) for row in choose_rows(rows, ROWS, DEFAULT_ROWS)}
    searches = [*entries.values(), *map(_control, entries.values())]
    common = {**settings, "problem": only, "generators": searches, "seeds": seeds}
    plans = {
        name: {**common, **values} for name, values in PROTOCOLS.items() if protocol in (None, name)
    }

    def tabulate(comparisons: Mapping[str, SearchComparison]) -> dict[str, Any]:
        return _tabulate(table, only, entries, comparisons)

    return Campaign(SEARCHES, f"{table}-{only}", plans, tabulate)


def needs(table: str) -> Needs:
    """Return contents and cost of a table: of `DEFAULT_ROWS`, with their controls."""
    seeds = len(seed_list(plan(table).plans["ours"]["seeds"]))
    clients = sum(ROWS[row][0] for row in DEFAULT_ROWS)
    searches = seeds * len(PROTOCOLS) * 2
    hours = {}
    for problem, cost in HOURS_PER_MILLION.items():
        budget = find_problem(problem).search
        steps = budget["iterations"] * budget["candidates"] * budget["total_steps"]
        hours[problem] = clients * searches * steps / 1e6 * cost
    return Needs(f"{TITLES[table]}; {len(DEFAULT_ROWS)} of {len(ROWS)} rows", hours, seeds)


def _control(entry: str) -> str:
    """Return the entry that differs from another one only in that its weights are random."""
    return entry.replace("annealing[", "random[", 1)


def _entry(row: str, problem: str, settings: Mapping[str, Any]) -> str:
    """Return a printed row as an entry of a comparison of searches."""
    clients, local, warm = ROWS[row]
    learner = find_problem(problem).learner
    total = find_problem(problem).search["total_steps"]
    table = settings.get(learner, {})
    if isinstance(table, Mapping) and isinstance(table.get("total_steps"), int):
        total = table["total_steps"]  # anything else is refused with the other settings
    steps = max(1, round(local * total / PROBLEMS[problem][1]))
    parts = [f"clients={clients}", f"{learner}.local_steps={steps}"]
    if warm:
        parts.append("warm_start=true")
    if row == "alone":
        parts.append("algorithm=no-communication")
    return f"annealing[{','.join(parts)}]"


def _tabulate(
    table: str,
    problem: str,
    entries: Mapping[str, str],
    comparisons: Mapping[str, SearchComparison],
) -> dict[str, Any]:
    figures = printed(table, problem)
    metrics = {
        protocol: {row["search"]: dict(row["metrics"]) for row in comparison.results["rows"]}
        for protocol, comparison in comparisons.items()
    }
    about_igd = _measure_igd(metrics, comparisons) if "igd" in TABLES[table][1] else {}
    one = next(iter(comparisons.values()))
    first = one.results
    searches = {*entries.values(), *map(_control, entries.values())}
    missing = {search for search in searches for held in metrics.values() if search not in held}
    if missing:
        raise UserError(f"{one.path.parent} holds other searches: {sorted(missing)}.")
    rows = [
        {
            "row": row,
            "measure": measure,
            "seeds": first["rows"][0]["seeds"],
            "printed": dict(zip(("mean", "std"), figures[row, measure], strict=True)),
            **{
                column: metrics[name][search][measure]
                for name in comparisons
                for column, search in zip(COLUMNS[name], (entry, _control(entry)), strict=True)
            },
            "optimum": first.get("optimum", {}).get(measure),
        }
        for measure in TABLES[table][1]
        for row, entry in entries.items()
    ]
    return {
        "table": table,
        "problem": problem,
        "models": {
            "printed": "last",
            **{COLUMNS[name][0]: _models(each) for name, each in comparisons.items()},
        },
        "reference_point": first["reference_point"],
        "reference_point_source": REFERENCE_POINT
        if first["reference_point"] == find_problem(problem).search["reference_point"]
        else "a setting of this reproduction",
        **about_igd,
        "rows": rows,
    }


def _measure_igd(
    metrics: Mapping[str, dict[str, dict[str, Spread]]],
    comparisons: Mapping[str, SearchComparison],
) -> dict[str, str]:
    """Add IGD to the measures where no front is known, and return what it is measured from.

    The reference set is the non-dominated union of the fronts of all searches of both protocols.
    """
    searches = {name: comparison.searches for name, comparison in comparisons.items()}
    every = [each for entries in searches.values() for same in entries.values() for each in same]
    if "igd" in every[0].results["metrics"]:
        return igd_reference(None)
    union = front(np.concatenate([search.front.vectors for search in every]))
    for name, entries in searches.items():
        for entry, same in entries.items():
            values = ({"igd": igd(search.front.vectors, union)} for search in same)
            metrics[name][entry] |= spread_of(values)
    return igd_reference(f"{len(every)} searches")


def _models(comparison: SearchComparison) -> str:
    """Return which models the measures of a comparison of searches are about."""
    results = next(iter(comparison.searches.values()))[0].results
    kept = "last" if results["keep"] == "last" else "kept"
    return f"{kept}, and those of every round" if results["harvest"] else kept
