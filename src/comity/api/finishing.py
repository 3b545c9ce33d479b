"""Work under way, brought to its end: executed, then reported.

Execution does not draw: a report is written afterwards. Runs and searches inside a comparison get
reports of their own when they are asked for: ``comity report DIRECTORY``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from comity import report as reports
from comity.errors import UserError
from comity.problems import Problem, register
from comity.report import PAGE, FigureKind
from comity.runs.compare import Comparison, run_plan
from comity.runs.directory import Run
from comity.runs.events import Notify
from comity.runs.execute import check_workers, execute
from comity.searches.comparison import SearchComparison, run_search_plan
from comity.searches.directory import Search
from comity.searches.execution import execute_search

Finished = Run | Comparison | Search | SearchComparison
"""Finished work in a directory."""
R = TypeVar("R", bound=Run | Search)


def named(problem: str | Problem | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Register a problem that is given as an object, and return its name."""
    return register(problem).name if isinstance(problem, Problem) else problem


def check(workers: int, figures: FigureKind) -> None:
    """Refuse a number of processes or a format of pictures, before anything is written."""
    check_workers(workers)
    if figures not in (kinds := get_args(FigureKind)):
        raise UserError(f"figures = {figures!r}: must be one of {', '.join(kinds)}.")


def lacks_report(finished: Run | Search) -> bool:
    """Whether a run or search is finished, but its drawing was interrupted."""
    return finished.finished and not (finished.path / PAGE).is_file()


def finish(started: R, workers: int, notify: Notify | None, figures: FigureKind = "png") -> R:
    """Execute a run or a search as far as it is not finished, and draw its report."""
    if not started.finished and isinstance(started, Search):
        execute_search(started, workers, notify)
    elif not started.finished and isinstance(started, Run):
        execute(started, workers, notify)
    if isinstance(started, Search) and started.control is not None:
        draw(started.control, figures)
    draw(started, figures)
    return started


def finish_comparison(
    path: Path, workers: int, notify: Notify | None, figures: FigureKind
) -> Comparison:
    """Execute what is not finished of a comparison, and draw its report."""
    comparison = run_plan(path, workers, notify)
    draw(comparison, figures)
    return comparison


def finish_searches(
    path: Path, workers: int, notify: Notify | None, figures: FigureKind
) -> SearchComparison:
    """Execute what is not finished of a comparison of searches, and draw its report."""
    comparison = run_search_plan(path, workers, notify)
    draw(comparison, figures)
    return comparison


def draw(finished: Finished, figures: FigureKind = "png") -> None:
    """Write the report of something finished."""
    if isinstance(finished, Run):
        reports.write_report(finished, figures)
    elif isinstance(finished, Search):
        reports.write_search_report(finished, figures)
    elif isinstance(finished, Comparison):
        reports.write_comparison_report(finished.path, finished.results, finished.runs, figures)
    else:
        reports.write_searches_report(finished, figures)
