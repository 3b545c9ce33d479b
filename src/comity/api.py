"""The functions that users call: configure, execute, report.

Execution does not draw: each function here executes first and writes the report afterwards. Runs
and searches inside a comparison get their own reports in the processes that execute them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from comity import report as reports
from comity import reproductions
from comity.algorithms import Algorithm, algorithms
from comity.core.typing import OnRound
from comity.errors import UserError, unknown
from comity.problems import Problem, problems, register
from comity.report import PAGE, FigureKind
from comity.reproductions import Reproduction, searches
from comity.runs.base import CROSS
from comity.runs.compare import PLAN as COMPARISON
from comity.runs.compare import Comparison, open_comparison, run_plan, start_comparison
from comity.runs.cross import cross_models
from comity.runs.directory import Run
from comity.runs.execute import check_workers, execute, start_run
from comity.runs.group_schema import Cross
from comity.runs.pretraining import check_target, save_agent, start_pretraining
from comity.searches import generators
from comity.searches.comparison import PLAN as SEARCHES
from comity.searches.comparison import (
    SearchComparison,
    open_searches,
    run_search_plan,
    start_searches,
)
from comity.searches.directory import Search
from comity.searches.execution import execute_search, start_search

Finished = Run | Comparison | Search | SearchComparison
"""Finished work in a directory."""
R = TypeVar("R", bound=Run | Search)


def run(
    problem: str | Problem | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
    **settings: Any,
) -> Run:
    """Run one federation to its end: ``comity.run("deep-sea-treasure", algorithm="fedpref")``.

    Args:
        problem: A registered name, ``"module:attribute"``, a problem, or a table that describes
            your own data.
        out: The run directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a `Progress`: a short
            text with ``round``, ``run`` and ``metrics``.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Run-level settings by name (``algorithm``, ``clients``, ``rounds``, ``seed``,
            ``preferences``, ...), and tables by the name of the algorithm or the learner:
            ``fedpref={"top_r": 0.4}, dqn={"local_steps": 1000}``. ``algorithm`` is a registered
            name, ``"module:class"``, or a class.
    """
    _check(workers, figures)
    started = start_run({"problem": _named(problem), **settings}, out)
    return _finish(started, workers, on_round, figures)


def compare(
    problem: str | Problem | Mapping[str, Any],
    *,
    algorithms: Sequence[str | type[Algorithm]],
    seeds: int | Sequence[int] = 3,
    preferences: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
    **settings: Any,
) -> Comparison:
    """Run each algorithm under each preference distribution with each seed, and tabulate.

    Args:
        problem: What is learned, as for `run`.
        algorithms: Entries, such as ``"fedavg"``, ``"fedavg+ft"`` (the last mixing replaced by
            local training), ``"fedpref[clustering=false]"`` or ``"module:class"``; or classes.
        seeds: Number of seeds, or the seeds.
        preferences: One distribution of preferences, or several; None: the problem's.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the runs.
        on_round: Called after each round of any run, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of `run`, the same for all entries; tables of algorithms that take no
            part are refused. And ``encodings``, ``attacks``: each entry under each; ``target``: on
            data with one objective, a validation accuracy; the table has when entries reach it.
    """
    _check(workers, figures)
    path = start_comparison(
        problem, algorithms=algorithms, seeds=seeds, preferences=preferences, out=out, **settings
    )
    return _finish_comparison(path, workers, on_round, figures)


def search(
    problem: str | Problem,
    *,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
    **settings: Any,
) -> Search:
    """Search for a whole front: ``comity.search("deep-sea-treasure", generator="gap")``.

    Args:
        problem: A problem with several objectives, or the name of one.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the clients; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a `Progress`: a short
            text with ``round``, ``run`` and ``metrics``.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of the search by name (``iterations``, ``candidates``,
            ``warm_start``, ...), those of its federations (``algorithm``, ``clients``, ``rounds``,
            ...), and tables by the name of the algorithm, the learner or the generator.
    """
    _check(workers, figures)
    started = start_search({"problem": _named(problem), **settings}, out)
    return _finish(started, workers, on_round, figures)


def compare_searches(
    problem: str | Problem,
    *,
    generators: Sequence[str],
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
    **settings: Any,
) -> SearchComparison:
    """Run each search with each seed, and tabulate. Random weights always take part.

    Args:
        problem: A problem with several objectives, or the name of one.
        generators: Entries, such as ``"gap"`` or ``"annealing[warm_start=true]"``.
        seeds: Number of seeds, or the seeds.
        out: The directory, which must not exist yet; default: a new one under ``runs/``.
        workers: Processes that share the searches.
        on_round: Called after each round of any search, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of `search`, the same for all entries.
    """
    _check(workers, figures)
    path = start_searches(problem, generators=generators, seeds=seeds, out=out, **settings)
    return _finish_searches(path, workers, on_round, figures)


def resume(
    path: str | Path | Run | Search,
    *,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
) -> Finished:
    """Continue an interrupted run, search or comparison; it ends as if never interrupted.

    Where only the report is missing, it is drawn.

    Args:
        path: Its directory, or the run or search itself.
        workers: Processes to use; results do not depend on it.
        on_round: Called after each round with rounds done, rounds in all and a `Progress`: a short
            text with ``round``, ``run`` and ``metrics``.
        figures: Format in which pictures are written beside PNG: pdf or svg.
    """
    _check(workers, figures)
    if not isinstance(path, Run | Search):
        path = Path(path)
        if (path / COMPARISON).is_file():
            return _finish_comparison(path, workers, on_round, figures)
        if (path / SEARCHES).is_file():
            return _finish_searches(path, workers, on_round, figures)
        path = open_directory(path)
    if path.finished and not lacks_report(path):
        raise UserError(f"{path.path} is finished already; see it with: comity report {path.path}")
    return _finish(path, workers, on_round, figures)


def open(path: str | Path) -> Finished:
    """Return the run, the search, or the finished comparison of either in a directory."""
    path = Path(path)
    if (path / COMPARISON).is_file():
        return open_comparison(path)
    if (path / SEARCHES).is_file():
        return open_searches(path)
    return open_directory(path)


def names(what: Literal["algorithms", "generators", "problems"]) -> list[str]:
    """Return the names that `run`, `compare` and `search` take: ``comity.names("problems")``."""
    named: tuple[Mapping[str, Any], ...] = (algorithms(), generators(), problems())
    known = dict(zip(("algorithms", "generators", "problems"), named, strict=True))
    if what not in known:
        raise unknown("kind of names", what, known)
    return sorted(known[what])


def report(path: str | Path, *, figures: FigureKind = "png") -> Finished:
    """Draw the pictures and the page of a finished run, search or comparison again.

    Args:
        path: The directory.
        figures: Format in which pictures are written beside PNG: pdf or svg.

    Returns:
        What is in the directory.
    """
    _check(1, figures)
    finished = open(path)
    _draw(finished, figures)
    return finished


def cross(run: str | Path | Run, *, model: str | Path | None = None) -> Cross:
    """Try every client's model on every client's test data, and show it on the run's page.

    The result of the clients' own models is also kept as ``cross.json`` in the run's directory.

    Args:
        run: A finished run, or its directory, whose clients' rows are all at hand.
        model: A .safetensors file that `export` wrote, to be tried on every client instead.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    table = cross_models(run, model)
    if model is None:
        run.save_json(CROSS, table)
        _draw(run)
    return table


def pretrain(
    problem: str | Problem,
    out: str | Path,
    *,
    run: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
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
        on_round: Called after each round, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: Settings of `run`.
    """
    _check(workers, figures)
    check_target(Path(out))
    started = start_pretraining({"problem": _named(problem), **settings}, run)
    return save_agent(_finish(started, workers, on_round, figures), Path(out))


def reproduce(
    table: str,
    *,
    rows: Sequence[str] | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    figures: FigureKind = "png",
    **settings: Any,
) -> Reproduction:
    """Run a printed table and set our figures beside the printed ones.

    Args:
        table: Its name, such as ``"thesis-4.1"``.
        rows: Some of its rows; default: those that the table's function chooses.
        out: The directory; runs already in it are used again. Default: a new one under ``runs/``.
        workers: Processes that share the runs.
        on_round: Called after each round of any run, as in `run`.
        figures: Format in which pictures are written beside PNG: pdf or svg.
        **settings: ``only`` (the problem, if the table has several), ``seeds``, ``preferences``
            where the table does not fix them, other arguments of the table's plan, and settings of
            `run` or `search`.
    """
    _check(workers, figures)
    work = finish_search_at if table in searches.TABLES else finish_run_at
    reproduction = reproductions.reproduce(
        table, rows=rows, out=out, workers=workers, on_round=on_round, work=work, **settings
    )
    for comparison in reproduction.comparisons:
        _draw(comparison, figures)
    reports.write_reproduction(
        reproduction.path, reproduction.results, reproduction.comparisons, figures
    )
    return reproduction


# -- parts of these functions --------------------------------------------------------------


def finish_run_at(path: Path, on_round: OnRound) -> None:
    """Execute the run in a directory in this process and write its report."""
    _finish(Run.open(path), 1, on_round)


def finish_search_at(path: Path, on_round: OnRound) -> None:
    """Execute the search in a directory in this process and write its report."""
    _finish(Search.open(path), 1, on_round)


def _named(problem: str | Problem | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Register a problem that is given as an object, and return its name."""
    return register(problem).name if isinstance(problem, Problem) else problem


def is_comparison(path: Path) -> bool:
    """Whether a directory is that of a comparison of runs or searches, finished or not."""
    return (path / COMPARISON).is_file() or (path / SEARCHES).is_file()


def open_directory(path: Path) -> Run | Search:
    """Return the run or the search in a directory, finished or not."""
    return Search.open(path) if Search.is_at(path) else Run.open(path)


def _check(workers: int, figures: FigureKind) -> None:
    """Refuse a number of processes or a format of pictures, before anything is written."""
    check_workers(workers)
    if figures not in (kinds := get_args(FigureKind)):
        raise UserError(f"figures = {figures!r}: must be one of {', '.join(kinds)}.")


def lacks_report(finished: Run | Search) -> bool:
    """Whether a run or search is finished, but its drawing was interrupted."""
    return finished.finished and not (finished.path / PAGE).is_file()


def _finish(started: R, workers: int, on_round: OnRound | None, figures: FigureKind = "png") -> R:
    """Execute a run or a search as far as it is not finished, and draw its report."""
    if not started.finished and isinstance(started, Search):
        execute_search(started, workers, on_round)
    elif not started.finished and isinstance(started, Run):
        execute(started, workers, on_round)
    if isinstance(started, Search) and started.control is not None:
        _draw(started.control, figures)
    _draw(started, figures)
    return started


def _finish_comparison(
    path: Path, workers: int, on_round: OnRound | None, figures: FigureKind
) -> Comparison:
    comparison = run_plan(path, workers, on_round, finish_run_at)
    _draw_missing(comparison.runs.values())
    _draw(comparison, figures)
    return comparison


def _finish_searches(
    path: Path, workers: int, on_round: OnRound | None, figures: FigureKind
) -> SearchComparison:
    comparison = run_search_plan(path, workers, on_round, finish_search_at)
    _draw_missing(comparison.searches.values())
    _draw(comparison, figures)
    return comparison


def _draw_missing(parts: Iterable[Sequence[Run | Search]]) -> None:
    """Write reports of runs or searches whose drawing was interrupted."""
    for part in chain.from_iterable(parts):
        if lacks_report(part):
            _draw(part)


def _draw(finished: Finished, figures: FigureKind = "png") -> None:
    """Write the report of something finished."""
    if isinstance(finished, Run):
        reports.write_report(finished, figures)
    elif isinstance(finished, Search):
        reports.write_search_report(finished, figures)
    elif isinstance(finished, Comparison):
        reports.write_comparison_report(finished.path, finished.results, finished.runs, figures)
    else:
        reports.write_searches_report(finished, figures)
