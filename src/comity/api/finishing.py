"""Work under way, brought to its end: executed, then reported.

Execution does not draw: a report is written afterwards. Runs and searches inside a comparison get
reports of their own when they are asked for: ``comity report DIRECTORY``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, get_args

from comity import report as reports
from comity.errors import UserError
from comity.federation.cluster import Cluster
from comity.report import PAGE, FigureKind
from comity.runs.cluster import Workers, check_workers
from comity.runs.compare import Comparison
from comity.runs.directory import Run
from comity.runs.events import Notify
from comity.runs.execute import execute
from comity.searches.comparison import SearchComparison
from comity.searches.directory import Search
from comity.searches.execution import execute_search
from comity.tuning import Tuning

Finished = Run | Comparison | Search | SearchComparison | Tuning
"""Finished work in a directory."""
R = TypeVar("R", bound=Run | Search)
P = TypeVar("P", bound=Comparison | SearchComparison | Tuning)


def check_figures(figures: FigureKind) -> None:
    """Refuse a format of pictures, before anything is written."""
    if figures not in (kinds := get_args(FigureKind)):
        raise UserError(f"figures = {figures!r}: must be one of {', '.join(kinds)}.")


@contextmanager
def working(
    workers: int | None, cluster: str | None = None, figures: FigureKind = "png"
) -> Iterator[Workers]:
    """Yield who does the work; a cluster is left at the end.

    A wrong number of processes, address of a cluster or format of pictures is refused, before
    anything is written.

    Args:
        workers: Processes on this machine; None: one, or the cluster's.
        cluster: Address of a cluster, instead of ``workers``.
        figures: Format of pictures.
    """
    check_figures(figures)
    if cluster is None:
        workers = 1 if workers is None else workers
        check_workers(workers)
        yield workers
        return
    if workers is not None:
        raise UserError(
            f"workers = {workers}: a cluster has its own; leave it out. local:{workers} starts as "
            "many workers here."
        )
    with Cluster(cluster) as connected:
        yield connected


def lacks_report(finished: Run | Search) -> bool:
    """Return whether a run or search is finished, but its drawing was interrupted."""
    return finished.finished and not (finished.path / PAGE).is_file()


def finish(started: R, workers: Workers, notify: Notify | None, figures: FigureKind = "png") -> R:
    """Execute a run or a search as far as it is not finished, and draw its report."""
    if not started.finished and isinstance(started, Search):
        execute_search(started, workers, notify)
    elif not started.finished and isinstance(started, Run):
        execute(started, workers, notify)
    if isinstance(started, Search) and started.control is not None:
        draw(started.control, figures)
    draw(started, figures)
    return started


def finish_plan(
    execute_plan: Callable[[Path, Workers, Notify | None], P],
    path: Path,
    workers: Workers,
    notify: Notify | None,
    figures: FigureKind,
) -> P:
    """Execute what is not finished of a comparison or a tuning, and draw its report.

    Args:
        execute_plan: Executes a plan of this kind.
        path: Directory of the plan.
        workers: Who does the work.
        notify: Called with each event.
        figures: Format of pictures beside PNG.
    """
    finished = execute_plan(path, workers, notify)
    draw(finished, figures)
    return finished


def draw(finished: Finished, figures: FigureKind = "png") -> None:
    """Write the report of something finished."""
    if isinstance(finished, Run):
        reports.write_report(finished, figures)
    elif isinstance(finished, Search):
        reports.write_search_report(finished, figures)
    elif isinstance(finished, Comparison):
        reports.write_comparison_report(finished.path, finished.results, finished.runs, figures)
    elif isinstance(finished, Tuning):
        reports.write_tuning_report(finished, figures)
    else:
        reports.write_searches_report(finished, figures)
