"""Comparisons of searches: several generators and schemes over several seeds.

An entry is a generator with optional settings: ``gap``, ``annealing[warm_start=true]``,
``gap[spread=true,clients=15,candidates=15]``. Random weights are added where no entry has
them: they are the control beside which every search is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from comity.configuration import RUN_SETTINGS, parse_setting, read_toml
from comity.core.devices import check_device
from comity.core.locks import held
from comity.core.storage import remove_leftovers
from comity.errors import UserError
from comity.problems import Problem, plain_problem
from comity.problems import find as find_problem
from comity.runs.checksums import read_results, save_sealed
from comity.runs.cluster import Work, Workers, check_workers
from comity.runs.compare import seed_list, start
from comity.runs.entries import merge
from comity.runs.events import Notify
from comity.runs.notebook import Rows, Shown, Tabular, entry_rows, point_rows
from comity.runs.parallel import Job, run_jobs
from comity.runs.places import entry_names, free_path
from comity.runs.search_schema import GrowthEntry, SearchComparisonResults, SearchRow
from comity.runs.spreads import spread, spread_of
from comity.searches.candidates import find
from comity.searches.configuration import (
    SearchConfiguration,
    SearchSettings,
    configure_search,
    split_search_settings,
)
from comity.searches.directory import Search
from comity.searches.effort import mean_effort
from comity.searches.execution import execute_search_at, rounds_in_all

PLAN, RESULTS = "searches.toml", "searches.json"


@dataclass(frozen=True, repr=False)
class SearchComparison(Shown, Tabular[Literal["points", "entries"]]):
    """A finished comparison of searches: its table and the searches behind it."""

    path: Path
    """Its directory."""
    results: SearchComparisonResults
    """The table, as in ``searches.json``."""
    searches: dict[str, list[Search]]
    """Searches by entry, one per seed."""

    def _tables(self) -> dict[Literal["points", "entries"], Callable[[], Rows]]:
        return {
            "points": lambda: [
                row
                for entry, searches in self.searches.items()
                for search in searches
                for row in point_rows(
                    search.results["front"], search=entry, seed=search.results["seed"]
                )
            ],
            "entries": lambda: entry_rows(self.results["rows"], ["search"]),
        }


def start_searches(
    problem: str | Problem | Mapping[str, Any],
    *,
    generators: Sequence[str],
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    **settings: Any,
) -> Path:
    """Check the plan of a comparison of searches and write it to a new directory.

    Args:
        problem: A problem with several objectives, the name of one, or a table that describes one.
        generators: Entries, such as ``gap`` or ``annealing[warm_start=true]``; ``random`` is added
            unless there is an entry with random weights.
        seeds: Number of seeds, or the seeds.
        out: The directory to create; None: a new one under ``runs/``.
        **settings: Settings of a search, the same for all entries.
    """
    problem = plain_problem(problem)
    entries = list(generators)
    if "random" not in {entry.partition("[")[0] for entry in entries}:
        entries.append("random")
    plan = {
        "problem": problem,
        "generators": entries,
        "seeds": seed_list(seeds),
        "settings": settings,
    }
    # a mistake must show before anything is written
    device = next(iter(_configurations(plan).values()))[0].federation.device
    check_device(device)
    if "device" in settings:  # all searches on one, also those that are resumed elsewhere
        plan["settings"] = {**settings, "device": device}
    path = Path(out) if out is not None else free_path(find_problem(problem).name, "searches")
    start(path, PLAN, plan)
    return path


def run_search_plan(
    path: Path, workers: Workers = 1, notify: Notify | None = None, work: Work = execute_search_at
) -> SearchComparison:
    """Execute the searches of a comparison that are not finished, and tabulate all.

    Args:
        path: The directory with the plan.
        workers: Processes that share the searches, or a cluster.
        notify: Called with each event of any search.
        work: Brings the search in a directory to its end, in a process of its own; a named
            function.
    """
    check_workers(workers)
    with held(path):
        remove_leftovers(path)
        plan = read_toml(path / PLAN)
        planned = _configurations(plan)
        names = entry_names(planned)
        searches: dict[str, list[Search]] = {}
        for entry, seeds in planned.items():
            place = path / names[entry]
            searches[entry] = [Search.create_or_open(place / f"seed-{c.seed}", c) for c in seeds]
        unfinished = [s for same in searches.values() for s in same if not s.finished]
        jobs = [Job(search.path, rounds_in_all(search.configuration)) for search in unfinished]
        problem = find_problem(plan["problem"])
        run_jobs(jobs, work, problem, workers, notify)
        results = _tabulate(problem.name, searches, path)
        save_sealed(path / RESULTS, results, [PLAN])
    return SearchComparison(path, results, searches)


def open_searches(path: Path) -> SearchComparison:
    """Return the finished comparison of searches in a directory."""
    results = cast(SearchComparisonResults, read_results(path / RESULTS, ["problem", "rows"]))
    searches = {
        row["search"]: [Search.open(path / place) for place in row["runs"]]
        for row in results["rows"]
    }
    return SearchComparison(path, results, searches)


def search_values(entry: str) -> dict[str, Any]:
    """Return the settings that an entry of a comparison of searches stands for."""
    match = re.fullmatch(r"([\w-]+)(?:\[(.*)\])?", entry)
    if match is None:
        raise UserError(
            f"generator: '{entry}' is not NAME or NAME[setting=value,…], "
            "e.g. annealing[warm_start=true]."
        )
    name, inside = match.groups()
    find(name)
    values: dict[str, Any] = {"search": {"generator": name}}
    for text in (inside or "").split(","):
        if text:
            (key, *rest), value = parse_setting(text)
            if rest:
                values.setdefault(key, {})[rest[0]] = value
            elif key in RUN_SETTINGS:
                values[key] = value
            else:
                table = "search" if key in SearchSettings.model_fields else name
                values.setdefault(table, {})[key] = value
    return values


def _configurations(plan: Mapping[str, Any]) -> dict[str, list[SearchConfiguration]]:
    """Return all searches of a plan, by entry."""
    for names in (plan["generators"], plan["seeds"]):
        if len(set(names)) < len(names):
            raise UserError("a comparison must not name a search or a seed twice.")
    common = split_search_settings(dict(plan["settings"]))
    names = {entry.partition("[")[0] for entry in plan["generators"]}
    planned = {}
    for entry in plan["generators"]:
        special = search_values(entry)
        # the table of another generator of this comparison is not for this one
        foreign = names - {special["search"]["generator"]}
        shared = {key: value for key, value in common.items() if key not in foreign}
        values = merge({**shared, "problem": plan["problem"]}, special)
        values["search"] = {**values["search"], "control": False}  # random weights are a row
        planned[entry] = [configure_search({**values, "seed": seed}) for seed in plan["seeds"]]
    return planned


def _tabulate(
    problem: str, searches: Mapping[str, Sequence[Search]], path: Path
) -> SearchComparisonResults:
    """Return mean and spread of every measure over the seeds, and the growth of hypervolume."""
    first = next(iter(searches.values()))[0].results
    rows: list[SearchRow] = []
    for entry, entry_searches in searches.items():
        results = [search.results for search in entry_searches]
        rows.append(
            {
                "search": entry,
                "algorithm": results[0]["algorithm"],
                "clients": results[0]["clients"],
                "seeds": [each["seed"] for each in results],
                "metrics": spread_of(each["metrics"] for each in results),
                "candidates": float(np.mean([each["candidates"] for each in results])),
                **mean_effort(results),
                "growth": growth(entry_searches),
                "runs": [str(search.path.relative_to(path)) for search in entry_searches],
            }
        )
    table: SearchComparisonResults = {
        "problem": problem,
        "reference_point": first["reference_point"],
        "trivial": first["trivial"],
        "rows": rows,
    }
    if "optimum" in first:
        table["optimum"] = first["optimum"]
    return table


def growth(searches: Sequence[Search]) -> list[GrowthEntry]:
    """Return hypervolume and cost after each iteration that the searches of all seeds reached."""
    histories = [search.history for search in searches]
    entries: list[GrowthEntry] = []
    for number in range(min(map(len, histories))):
        at = [history[number] for history in histories]
        entries.append(
            {
                "evaluations": at[0]["evaluations"],
                **mean_effort(at),
                "hypervolume": spread([entry["hypervolume"] for entry in at]),
            }
        )
    return entries
