"""The printed tables of MOFL/D beside our own figures: `comity reproduce thesis-3.2`.

Every row is searched twice: as printed (annealing, the last models, evaluated once at the end)
and under our defaults. The thesis trains 100,000 steps per candidate in 20 iterations; the default
here is smaller, with as many rounds: the steps between averagings shrink with the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comity.errors import UserError, unknown
from comity.problems import find as find_problem
from comity.reproductions.campaign import SEARCHES, Campaign
from comity.reproductions.printed import choose_rows, read_printed
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
PROBLEMS = {
    "deep-sea-treasure": ("DST", 100_000),
    "minecart-deterministic": ("DMC", 150_000),
    "lunar-lander": ("MO-LL", 100_000),
}
"""Printed name, and environment steps per client and candidate in the thesis."""


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
    **settings: Any,
) -> Campaign[SearchComparison]:
    """Plan a table of searches: its rows under both protocols.

    Args:
        table: One of `TABLES`.
        only: The problem.
        seeds: Number of seeds, or the seeds.
        rows: Some of `ROWS`; None: `DEFAULT_ROWS`.
        **settings: Settings of all searches.
    """
    if only not in PROBLEMS:
        raise unknown("problem of this table", only, PROBLEMS)
    entries = {row: _entry(row, only, settings) for row in choose_rows(rows, ROWS, DEFAULT_ROWS)}
    common = {**settings, "problem": only, "generators": list(entries.values()), "seeds": seeds}
    plans = {name: {**common, **protocol} for name, protocol in PROTOCOLS.items()}

    def tabulate(comparisons: Mapping[str, SearchComparison]) -> dict[str, Any]:
        return _tabulate(table, only, entries, comparisons)

    return Campaign(SEARCHES, f"{table}-{only}", plans, tabulate)


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
        protocol: {row["search"]: row["metrics"] for row in comparison.results["rows"]}
        for protocol, comparison in comparisons.items()
    }
    first = comparisons["paper"].results
    missing = set(entries.values()) - (set(metrics["paper"]) & set(metrics["ours"]))
    if missing:
        path = comparisons["paper"].path.parent
        raise UserError(f"{path} holds other searches: {sorted(missing)}.")
    rows = [
        {
            "row": row,
            "measure": measure,
            "seeds": first["rows"][0]["seeds"],
            "printed": dict(zip(("mean", "std"), figures[row, measure], strict=True)),
            "paper_protocol": metrics["paper"][entry][measure],
            "our_defaults": metrics["ours"][entry][measure],
            "random_control": metrics["ours"]["random"][measure],
            "optimum": first.get("optimum", {}).get(measure),
        }
        for measure in TABLES[table][1]
        for row, entry in entries.items()
        if measure in metrics["paper"][entry]
    ]
    return {
        "table": table,
        "problem": problem,
        "reference_point": first["reference_point"],
        "rows": rows,
    }
