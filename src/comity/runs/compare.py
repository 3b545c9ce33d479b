"""Comparisons: several algorithms over several seeds and preference distributions.

A comparison is a directory of ordinary runs, so it can be interrupted and resumed like one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import tomli_w

from comity.algorithms import Algorithm, find, name_of
from comity.algorithms.faults import check_code, code_of
from comity.algorithms.wrappers import NONE, wrappers
from comity.configuration import (
    Configuration,
    check_complete,
    configure,
    lacks_companions,
    read_toml,
    with_grids,
)
from comity.core.locks import held
from comity.core.pareto import front, igd
from comity.core.storage import remove_leftovers, write_whole
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.problems import Problem, plain_problem
from comity.problems import find as find_problem
from comity.runs.alone import gains_over_alone
from comity.runs.checksums import read_results, save_sealed
from comity.runs.cluster import Work, Workers, check_workers
from comity.runs.comparison_verdict import comparison_verdict, counts_of
from comity.runs.contacts import save_contacts, with_own_contacts
from comity.runs.differences import correct, gains_of
from comity.runs.directory import Run
from comity.runs.entries import entry_values, merge, with_attacks, with_encodings
from comity.runs.events import Notify
from comity.runs.execute import execute_at
from comity.runs.how_soon import check_target, with_how_soon
from comity.runs.notebook import Rows, Shown, Tabular, client_rows, entry_rows
from comity.runs.parallel import Job, run_jobs
from comity.runs.places import entry_names, free_path, make_directory
from comity.runs.schema import ComparisonResults, ComparisonRow, Metrics, Spread
from comity.runs.spreads import spread_of
from comity.runs.tuned import with_tuned, with_tunings
from comity.runs.verdict import honest_rows

PLAN, RESULTS, REFERENCE = "comparison.toml", "comparison.json", "reference_set.csv"

Runs = Mapping[tuple[str, str], Sequence[Run]]
"""Runs by (entry, preferences), one per seed."""


@dataclass(frozen=True, repr=False)
class Comparison(Shown, Tabular[Literal["clients", "entries"]]):
    """A finished comparison: its table and the runs behind it."""

    path: Path
    """Its directory."""
    results: ComparisonResults
    """The table, as in ``comparison.json``."""
    runs: dict[tuple[str, str], list[Run]]
    """Runs by (entry, preferences), one per seed."""

    def _tables(self) -> dict[Literal["clients", "entries"], Callable[[], Rows]]:
        return {
            "clients": self._client_rows,
            "entries": lambda: entry_rows(self.results["rows"], ["algorithm", "preferences"]),
        }

    def _client_rows(self) -> Rows:
        rows: Rows = []
        for (entry, preferences), runs in self.runs.items():
            for run in runs:
                results = run.results
                names = list(results["per_client"][0]["objectives"])
                common = {"algorithm": entry, "preferences": preferences, "seed": results["seed"]}
                rows += client_rows(results["per_client"], names, **common)
        return rows


def start_comparison(
    problem: str | Problem | Mapping[str, Any],
    *,
    algorithms: Sequence[str | type[Algorithm]],
    seeds: int | Sequence[int] = 3,
    preferences: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    target: float | None = None,
    encodings: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    **settings: Any,
) -> Path:
    """Check the plan of a comparison and write it to a new directory; nothing is trained yet.

    Args:
        problem: A name, a problem, or a table that describes a problem.
        algorithms: Entries, such as ``fedavg``, ``fedavg+ft`` or ``fedpref[clustering=false]``, or
            classes; ``fedpref[grid]`` stands for all of the grid printed for this problem,
            ``fedpref[tuned=DIRECTORY]`` for the settings that a tuning chose.
        seeds: Number of seeds, or the seeds.
        preferences: One distribution of preferences, or several; None: the problem's.
        out: The directory to create; default: a new one under ``runs/``.
        target: Validation accuracy whose first round is tabulated; one objective only.
        encodings: Ways in which models travel; each entry is run under each of them.
        attacks: Attacks; each entry is run under each of them.
        **settings: Settings of a run, the same for all entries.
    """
    problem = plain_problem(problem)
    entries = with_grids([name_of(entry) for entry in algorithms], find_problem(problem))
    entries, tuned = with_tuned(entries, find_problem(problem))
    entries = entries if attacks is None else with_attacks(entries, attacks)
    kinds = [preferences] if isinstance(preferences, str | None) else preferences
    if not isinstance(kinds, Sequence) or not kinds:
        raise UserError(f"preferences = {preferences!r}: name one distribution, or several.")
    plan: dict[str, Any] = {
        "problem": problem,
        "algorithms": entries if encodings is None else with_encodings(entries, encodings),
        "seeds": seed_list(seeds),
        "preferences": list(kinds),
        "settings": settings,
        **({} if target is None else {"target": target}),
        **({"tuned": tuned} if tuned else {}),
    }
    planned = [each for same in configurations(plan).values() for each in same]
    for configuration in planned:  # a mistake must show before anything is written
        check_complete(configuration)
    if code := code_of(configuration.algorithm for configuration in planned):
        plan["code"] = code
    if preferences is None:
        plan["preferences"] = [planned[0].preferences]
    if "device" in settings:  # all runs on one, also those that are resumed elsewhere
        plan["settings"] = {**settings, "device": planned[0].device}
    path = Path(out) if out is not None else free_path(find_problem(problem).name, "comparison")
    if (own := with_own_contacts(planned[0], path)).links is not None:
        plan["settings"] = {**plan["settings"], "links": own.links.model_dump()}
    start(path, PLAN, plan)
    save_contacts(path, planned[0])
    return path


def seed_list(seeds: int | Sequence[int]) -> list[int]:
    """Return the seeds 1 to ``seeds``, or the given ones."""
    return list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)


def start(path: Path, file: str, plan: Mapping[str, Any]) -> None:
    """Create a comparison's directory with its plan in ``file``; an existing one is refused."""
    make_directory(path, file, tomli_w.dumps(plan).encode(), "comparison")


def run_plan(
    path: Path, workers: Workers = 1, notify: Notify | None = None, work: Work = execute_at
) -> Comparison:
    """Execute the runs of a comparison that are not finished, and tabulate all.

    Args:
        path: The directory with the plan.
        workers: Processes that share the runs, or a cluster.
        notify: Called with each event of any run.
        work: Brings the run in a directory to its end, in a process of its own; a named function.
    """
    check_workers(workers)
    with held(path):
        remove_leftovers(path)
        plan = read_toml(path / PLAN)
        planned = configurations(plan)
        names = entry_names("/".join(key) for key in planned)
        runs: dict[tuple[str, str], list[Run]] = {}
        for key, seeds in planned.items():
            place = path / names["/".join(key)]
            runs[key] = [Run.create_or_open(place / f"seed-{c.seed}", c) for c in seeds]
        unfinished = [run for entry_runs in runs.values() for run in entry_runs if not run.finished]
        check_code(plan.get("code", {}) if unfinished else {}, path)
        jobs = [Job(run.path, run.configuration.rounds) for run in unfinished]
        problem = find_problem(plan["problem"])
        run_jobs(jobs, work, problem, workers, notify)
        results = with_how_soon(tabulate(problem.name, runs, path), runs, plan.get("target"))
        results = with_tunings(results, plan)
        save_sealed(path / RESULTS, results, [PLAN, REFERENCE])
    return Comparison(path, results, runs)


def open_comparison(path: Path) -> Comparison:
    """Return the finished comparison in a directory."""
    results = cast(ComparisonResults, read_results(path / RESULTS, ["problem", "rows"]))
    runs = {
        (row["algorithm"], row["preferences"]): [Run.open(path / place) for place in row["runs"]]
        for row in results["rows"]
    }
    return Comparison(path, results, runs)


def configurations(plan: Mapping[str, Any]) -> dict[tuple[str, str], list[Configuration]]:
    """Return all runs of a plan, by entry and preferences; None: those of problem or preset."""
    check_target(plan)
    entries = {entry: entry_values(entry) for entry in plan["algorithms"]}
    names = {entry: find(v["algorithm"]).declaration.name for entry, v in entries.items()}
    if not entries or not plan["seeds"]:
        raise UserError("a comparison needs at least one algorithm and one seed.")
    for name in ("algorithms", "seeds", "preferences"):
        if any(value in plan[name][:place] for place, value in enumerate(plan[name])):
            raise UserError(f"{name}: a comparison must not name one twice.")
    tables = {key for key, value in plan["settings"].items() if isinstance(value, Mapping)}
    planned: dict[tuple[str, str], list[Configuration]] = {}
    for entry, own in entries.items():
        # a table of another algorithm of this comparison is not for this one
        foreign = (tables & set(names.values())) - {names[entry]}
        wrapper = {**plan["settings"], **own}.get("wrapper")
        if wrapper != NONE:
            foreign |= wrappers().keys() - set(str(wrapper or "").split(","))
        common = {k: v for k, v in plan["settings"].items() if k not in foreign}
        common = {k: v for k, v in common.items() if k not in _meaningless(own["algorithm"])}
        merged = merge(common, own)
        for preferences in plan["preferences"]:
            chosen = {} if preferences is None else {"preferences": preferences}
            values = {**merged, "problem": plan["problem"], **chosen}
            runs = [configure({**values, "seed": seed}) for seed in plan["seeds"]]
            planned[entry, str(preferences)] = runs
    return planned


def _meaningless(algorithm: str) -> tuple[str, ...]:
    """Return the common settings that an algorithm does not have."""
    known = find(algorithm)
    receiving = () if known.communicates else ("guard", "fine_tune")
    return (*receiving, *(["alone_share"] if lacks_companions(known) else ()))


# -- the table -----------------------------------------------------------------------------


def with_common_reference(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return comparisons of one problem with IGD measured from one set, the union of all runs.

    Their tables and reference sets are written again. Where a front is known, nothing changes.

    Args:
        comparisons: Finished comparisons, by any name.
    """
    every = [run for c in comparisons.values() for runs in c.runs.values() for run in runs]
    if len(comparisons) < 2 or has_igd(every[0]):
        return dict(comparisons)
    union = union_front(every)
    common = {}
    for name, comparison in comparisons.items():
        path, runs = comparison.path, comparison.runs
        results = tabulate(comparison.results["problem"], runs, path, union)
        save_sealed(path / RESULTS, results, [PLAN, REFERENCE])
        common[name] = Comparison(path, results, runs)
    return common


def has_igd(run: Run) -> bool:
    """Return whether a run has an IGD of its own, because the front of its problem is known."""
    return "igd" in run.results["metrics"]


def union_front(runs: Iterable[Run]) -> FloatArray:
    """Return the non-dominated union of the fronts of several runs."""
    return front(np.concatenate([run.front for run in runs]))


def tabulate(
    problem: str, runs: Runs, path: Path, reference: FloatArray | None = None
) -> ComparisonResults:
    """Return mean and population standard deviation of every measure over the seeds.

    Where no front is known, IGD is measured from a reference set, which is written beside the
    table.

    Args:
        problem: Name of the problem.
        runs: Finished runs by (entry, preferences).
        path: The comparison's directory.
        reference: The reference set; None: the non-dominated union of all runs.
    """
    every = [run for entry_runs in runs.values() for run in entry_runs]
    union = None
    if not has_igd(every[0]):
        union = union_front(every) if reference is None else reference
        lines = [",".join(map(repr, vector)) for vector in union.tolist()]
        write_whole(path / REFERENCE, ("\n".join(lines) + "\n").encode())
    settings = {entry: entry_values(entry) for entry, _ in runs}
    of_kind: dict[str, dict[str, Sequence[Run]]] = {}
    for (entry, preferences), entry_runs in runs.items():
        of_kind.setdefault(preferences, {})[entry] = entry_runs
    rows: list[dict[str, Any]] = []
    for (entry, preferences), entry_runs in runs.items():
        metrics = [dict(run.results["metrics"]) for run in entry_runs]
        last = [run.results.get("metrics_last", run.results["metrics"]) for run in entry_runs]
        if union is not None:  # of the kept models: no vectors of the last ones are stored
            for run, values in zip(entry_runs, metrics, strict=True):
                values["igd"] = igd(run.front, union)
        rows.append(
            {
                "algorithm": entry,
                "preferences": preferences,
                "centralised": entry_runs[0].configuration.get_algorithm().centralised,
                "seeds": [run.configuration.seed for run in entry_runs],
                "metrics": spread_of(metrics),
                "metrics_last": spread_of(last),
                "pooled": pooled(entry_runs),
                "communication": _communication(entry_runs),
                **counts_of(entry_runs),
                **gains_of(entry, settings, of_kind[preferences]),
                **gains_over_alone(entry, settings, of_kind[preferences]),
                **_baselines(entry_runs),
                "runs": [str(run.path.relative_to(path)) for run in entry_runs],
            }
        )
    point = every[0].results["reference_point"]
    tests = correct(
        {
            (row["preferences"], row["algorithm"], other): gain
            for row in rows
            for other, gain in row.get("paired", {}).items()
        }
    )
    table = {
        "verdict": comparison_verdict(cast(list[ComparisonRow], rows), tests),
        "problem": problem,
        "reference_point": point,
        "rows": rows,
        **_baselines(every),
    }
    return cast(ComparisonResults, table)


def pooled(runs: Sequence[Run]) -> Metrics:
    """Return the measures of all clients of several runs taken together, as one set of vectors."""
    configurations = [run.configuration for run in runs]
    honest = [honest_rows(run.results["per_client"]) for run in runs]
    vectors = np.concatenate([r.vectors[rows] for r, rows in zip(runs, honest, strict=True)])
    preferences = np.concatenate(
        [c.get_preferences()[rows] for c, rows in zip(configurations, honest, strict=True)]
    )
    return configurations[0].get_problem().measures(vectors, preferences)


def _communication(runs: Sequence[Run]) -> dict[str, Spread]:
    """Return megabytes in both directions, bytes per update of one client, and epsilon if any."""
    sent = [run.results["communication"] for run in runs]
    return spread_of(
        {
            "megabytes": (each["bytes_up"] + each["bytes_down"]) / 1e6,
            "bytes_per_update": each.get("bytes_per_update", math.nan),
            **({"epsilon": run.results["privacy"]["epsilon"]} if "privacy" in run.results else {}),
        }
        for run, each in zip(runs, sent, strict=True)
    )


def _baselines(runs: Sequence[Run]) -> dict[str, Metrics]:
    """Return the mean measures of the trivial policy and, where it is known, of the optimum."""
    trivial = [run.results["trivial"] for run in runs]
    optimum = [run.results["optimum"] for run in runs if "optimum" in run.results]
    return {
        kind: {name: value["mean"] for name, value in spread_of(measures).items()}
        for kind, measures in (("trivial", trivial), ("optimum", optimum))
        if measures
    }
