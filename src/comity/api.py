"""The functions that users call: configure, execute, report.

Execution does not draw: each function here executes first and writes the report afterwards. Runs
and searches inside a comparison get their own reports in the processes that execute them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comity import report as reports
from comity import reproductions
from comity.core.typing import OnRound
from comity.errors import UserError
from comity.problems import Problem, register
from comity.reproductions import Reproduction, searches
from comity.runs.compare import PLAN as COMPARISON
from comity.runs.compare import Comparison, open_comparison, run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.execute import check_workers, execute, free_path, start_run
from comity.runs.pretraining import check_target, save_agent, start_pretraining
from comity.searches.comparison import PLAN as SEARCHES
from comity.searches.comparison import (
    SearchComparison,
    open_searches,
    run_search_plan,
    start_searches,
)
from comity.searches.configuration import configure_search, split_search_settings
from comity.searches.directory import Search
from comity.searches.execution import execute_search

Finished = Run | Comparison | Search | SearchComparison
"""Finished work in a directory."""


def run(
    problem: str | Problem | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Run:
    """Run one federation to its end: ``comity.run("deep-sea-treasure", algorithm="fedpref")``.

    Args:
        problem: A registered name, ``"module:attribute"``, a problem, or a table that describes
            your own data.
        out: The run directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a short text.
        **settings: Run-level settings by name (``algorithm``, ``clients``, ``rounds``, ``seed``,
            ``preferences``, ...), and tables by the name of the algorithm or the learner:
            ``fedpref={"top_r": 0.4}, dqn={"local_steps": 1000}``.
    """
    check_workers(workers)
    return _finish_run(start_run({"problem": _named(problem), **settings}, out), workers, on_round)


def compare(
    problem: str | Problem | Mapping[str, Any],
    *,
    algorithms: Sequence[str],
    seeds: int | Sequence[int] = 3,
    preferences: str | Sequence[str] = "dirichlet",
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Comparison:
    """Run each algorithm under each preference distribution with each seed, and tabulate.

    Args:
        problem: What is learned, as for `run`.
        algorithms: Entries, such as ``"fedavg"``, ``"fedavg+ft"`` (the last mixing replaced by
            local training) or ``"fedpref[clustering=false]"``.
        seeds: Number of seeds, or the seeds.
        preferences: One distribution of preferences, or several.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the runs.
        on_round: Called after each round of any run.
        **settings: Settings of `run`, the same for all entries; tables of algorithms that take no
            part are refused. And ``target``: on data with one objective, a validation accuracy;
            the table has when each entry reaches it.
    """
    check_workers(workers)
    path = start_comparison(
        problem, algorithms=algorithms, seeds=seeds, preferences=preferences, out=out, **settings
    )
    return _finish_comparison(path, workers, on_round)


def search(
    problem: str | Problem,
    *,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Search:
    """Search for a whole front: ``comity.search("deep-sea-treasure", generator="gap")``.

    Args:
        problem: A problem with several objectives, or the name of one.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a short text.
        **settings: Settings of the search by name (``iterations``, ``candidates``,
            ``warm_start``, ...), those of its federations (``algorithm``, ``clients``, ``rounds``,
            ...), and tables by the name of the algorithm, the learner or the generator.
    """
    check_workers(workers)
    started = start_search({"problem": _named(problem), **settings}, out)
    return _finish_search(started, workers, on_round)


def compare_searches(
    problem: str | Problem,
    *,
    generators: Sequence[str],
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> SearchComparison:
    """Run each search with each seed, and tabulate. Random weights always take part.

    Args:
        problem: A problem with several objectives, or the name of one.
        generators: Entries, such as ``"gap"`` or ``"annealing[warm_start=true]"``.
        seeds: Number of seeds, or the seeds.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the searches.
        on_round: Called after each round of any search.
        **settings: Settings of `search`, the same for all entries.
    """
    check_workers(workers)
    path = start_searches(problem, generators=generators, seeds=seeds, out=out, **settings)
    return _finish_searches(path, workers, on_round)


def resume(
    path: str | Path | Run | Search, *, workers: int = 1, on_round: OnRound | None = None
) -> Finished:
    """Continue an interrupted run, search or comparison; it ends as if never interrupted.

    Args:
        path: Its directory, or the run or search itself.
        workers: Processes to use; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a short text.
    """
    if not isinstance(path, Run | Search):
        path = Path(path)
        if (path / COMPARISON).is_file():
            return _finish_comparison(path, workers, on_round)
        if (path / SEARCHES).is_file():
            return _finish_searches(path, workers, on_round)
        path = open_directory(path)
    if path.finished:
        raise UserError(f"{path.path} is finished already; see it with: comity report {path.path}")
    if isinstance(path, Search):
        return _finish_search(path, workers, on_round)
    return _finish_run(path, workers, on_round)


def open(path: str | Path) -> Finished:
    """Return the run, the search, or the finished comparison of either in a directory."""
    path = Path(path)
    if (path / COMPARISON).is_file():
        return open_comparison(path)
    if (path / SEARCHES).is_file():
        return open_searches(path)
    return open_directory(path)


def report(path: str | Path) -> Finished:
    """Draw the pictures and the page of a finished run, search or comparison again.

    Returns what is in the directory ``path``.
    """
    finished = open(path)
    _draw(finished)
    return finished


def pretrain(
    problem: str | Problem,
    out: str | Path,
    *,
    run: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Path:
    """Train pFedRLLA's agent on one federation and write it to a file.

    Other runs name the file as ``pfedrlla.agent``. The federation in which the agent learns is a
    run like any other.

    Args:
        problem: What is learned, as for `run`.
        out: The file to write, which must not exist yet.
        run: The run directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a short text.
        **settings: Settings of `run`.
    """
    check_workers(workers)
    check_target(Path(out))
    started = start_pretraining({"problem": _named(problem), **settings}, run)
    return save_agent(_finish_run(started, workers, on_round), Path(out))


def reproduce(
    table: str,
    *,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Reproduction:
    """Run a printed table and set our figures beside the printed ones.

    Args:
        table: Its name, such as ``"thesis-4.1"``.
        rows: Some of its rows; default: those that the table's function chooses.
        out: The directory; runs already in it are used again. Default: a new one under ``runs/``.
        workers: Processes that share the runs.
        on_round: Called after each round of any run.
        **settings: ``only`` (the problem, if the table has several), ``seeds``, ``preferences``
            where the table does not fix them, other arguments of the table's plan, and settings of
            `run` or `search`.
    """
    check_workers(workers)
    work = finish_search_at if table in searches.TABLES else finish_run_at
    reproduction = reproductions.reproduce(
        table, rows=rows, out=out, workers=workers, on_round=on_round, work=work, **settings
    )
    for comparison in reproduction.comparisons:
        _draw(comparison)
    reports.write_reproduction(reproduction.path, reproduction.results, reproduction.comparisons)
    return reproduction


# -- parts of these functions --------------------------------------------------------------


def start_search(values: Mapping[str, Any], out: str | Path | None = None) -> Search:
    """Configure a search and create its directory; nothing is trained yet.

    Args:
        values: Settings as a TOML file holds them; those of the search may stand outside its
            table.
        out: The directory to create; default: a new one under ``runs/``.
    """
    configuration = configure_search(split_search_settings(values))
    if out is None:
        problem, seed = configuration.federation.problem_name, f"seed{configuration.seed}"
        out = free_path(problem, "search", configuration.label, seed)
    return Search.create(Path(out), configuration)


def finish_run_at(path: Path, on_round: OnRound) -> None:
    """Execute the run in a directory in this process and write its report."""
    _finish_run(Run.open(path), 1, on_round)


def finish_search_at(path: Path, on_round: OnRound) -> None:
    """Execute the search in a directory in this process and write its report."""
    _finish_search(Search.open(path), 1, on_round)


def _named(problem: str | Problem | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Register a problem that is given as an object, and return its name."""
    return register(problem).name if isinstance(problem, Problem) else problem


def is_comparison(path: Path) -> bool:
    """Whether a directory is that of a comparison of runs or searches, finished or not."""
    return (path / COMPARISON).is_file() or (path / SEARCHES).is_file()


def open_directory(path: Path) -> Run | Search:
    """Return the run or the search in a directory, finished or not."""
    return Search.open(path) if Search.is_at(path) else Run.open(path)


def _finish_run(run: Run, workers: int, on_round: OnRound | None) -> Run:
    execute(run, workers, on_round)
    _draw(run)
    return run


def _finish_search(search: Search, workers: int, on_round: OnRound | None) -> Search:
    execute_search(search, workers, on_round)
    if search.control is not None:
        _draw(search.control)
    _draw(search)
    return search


def _finish_comparison(path: Path, workers: int, on_round: OnRound | None) -> Comparison:
    comparison = run_plan(path, workers, on_round, finish_run_at)
    _draw(comparison)
    return comparison


def _finish_searches(path: Path, workers: int, on_round: OnRound | None) -> SearchComparison:
    comparison = run_search_plan(path, workers, on_round, finish_search_at)
    _draw(comparison)
    return comparison


def _draw(finished: Finished) -> None:
    """Write the report of something finished."""
    if isinstance(finished, Run):
        reports.write_report(finished)
    elif isinstance(finished, Search):
        reports.write_search_report(finished)
    elif isinstance(finished, Comparison):
        reports.write_comparison_report(finished.path, finished.results, finished.runs)
    else:
        reports.write_searches_report(finished)
