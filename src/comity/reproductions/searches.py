"""The printed tables of MOFL/D beside our own figures: `comity reproduce thesis-3.2`.

Every row is searched twice: as printed (annealing, the last models, evaluated once at the end)
and under our defaults. The thesis trains 100,000 steps a candidate in 20 iterations; the default
here is smaller, with as many rounds: a row's steps between averagings shrink with its budget.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comity.core.typing import OnRound
from comity.errors import UserError, unknown
from comity.problems import find as find_problem
from comity.reproductions.printed import Reproduction, read_printed, under_each
from comity.runs.execute import free_path
from comity.runs.parallel import Work
from comity.searches.comparison import PLAN, SearchComparison, run_search_plan, start_searches
from comity.searches.execution import execute_search_at

TABLES = {
    "thesis-3.2": ("thesis_table_3_2_hv_sparsity.csv", ("hypervolume", "sparsity")),
    "thesis-3.3": ("thesis_table_3_3_igd.csv", ("igd",)),
}
"""Printed tables: file and the measures that it prints. Both come from the same searches."""

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
"""Printed name, and environment steps that a client spent on a candidate."""


def printed(table: str, problem: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Printed mean and spread by (row, measure), in true units."""
    names = {
        f"n_c={clients};local_iter={steps};warm_start={str(warm).lower()}": row
        for row, (clients, steps, warm) in ROWS.items()
        if row != "alone"
    } | {"n_c=1;local_iter=none;warm_start=none": "alone"}
    rows = read_printed(TABLES[table][0], PROBLEMS[problem][0])
    return {(names[row["setting"]], row["metric"]): figures for row, figures in rows}


def reproduce_searches(
    table: str,
    *,
    only: str = "deep-sea-treasure",
    seeds: int | Sequence[int] = 3,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    work: Work = execute_search_at,
    **settings: Any,
) -> Reproduction:
    """Search as each row of a printed table does, under both protocols; ours beside it."""
    if only not in PROBLEMS:
        raise unknown("problem of this table", only, PROBLEMS)
    chosen = list(rows or DEFAULT_ROWS)
    for row in chosen:
        if row not in ROWS:
            raise unknown("row of this table", row, ROWS)
    figures = printed(table, only)
    entries = {row: _entry(row, only, settings) for row in chosen}
    path = Path(out) if out is not None else free_path(f"{table}-{only}")

    def carried_out(place: Path, values: Mapping[str, Any], tell: OnRound) -> SearchComparison:
        if not (place / PLAN).is_file():
            start_searches(
                only,
                generators=list(entries.values()),
                seeds=seeds,
                out=place,
                **{**settings, **values},
            )
        return run_search_plan(place, workers, tell, work)

    made = under_each(PROTOCOLS, path, carried_out, on_round)
    results = _beside(table, only, entries, figures, made)
    (path / f"{table}.json").write_text(json.dumps(results, indent=2) + "\n")
    return Reproduction(path, results, tuple(made.values()))


def _entry(row: str, problem: str, settings: dict[str, Any]) -> str:
    """A printed row as an entry of a comparison of searches."""
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


def _beside(
    table: str,
    problem: str,
    entries: dict[str, str],
    figures: dict[tuple[str, str], tuple[float, float]],
    made: dict[str, SearchComparison],
) -> dict[str, Any]:
    metrics = {
        protocol: {row["search"]: row["metrics"] for row in comparison.results["rows"]}
        for protocol, comparison in made.items()
    }
    first = made["paper"].results
    missing = set(entries.values()) - (set(metrics["paper"]) & set(metrics["ours"]))
    if missing:
        raise UserError(f"{made['paper'].path.parent} holds other searches: {sorted(missing)}.")
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
