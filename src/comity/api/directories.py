"""What is in a directory: opened, reported again, measured further."""

from __future__ import annotations

from pathlib import Path

from comity.api.finishing import Finished, check_figures, draw
from comity.report import FigureKind
from comity.runs.base import CROSS
from comity.runs.compare import PLAN as COMPARISON
from comity.runs.compare import open_comparison
from comity.runs.cross import cross_models
from comity.runs.directory import Run
from comity.runs.group_schema import Cross
from comity.searches.comparison import PLAN as SEARCHES
from comity.searches.comparison import open_searches
from comity.searches.directory import Search
from comity.tuning import PLAN as TUNING
from comity.tuning import open_tuning


def open(path: str | Path) -> Finished:
    """Return the run, the search, the finished tuning or comparison in a directory."""
    path = Path(path)
    if (path / COMPARISON).is_file():
        return open_comparison(path)
    if (path / SEARCHES).is_file():
        return open_searches(path)
    if (path / TUNING).is_file():
        return open_tuning(path)
    return open_directory(path)


def report(path: str | Path, *, figures: FigureKind = "png") -> Finished:
    """Draw the pictures and the page of a finished run, search, comparison or tuning again.

    Args:
        path: The directory.
        figures: Format in which pictures are written beside PNG: pdf or svg.

    Returns:
        What is in the directory.
    """
    check_figures(figures)
    finished = open(path)
    draw(finished, figures)
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
        draw(run)
    return table


def has_plan(path: Path) -> bool:
    """Return whether a directory is that of a comparison or a tuning, finished or not."""
    return any((path / plan).is_file() for plan in (COMPARISON, SEARCHES, TUNING))


def open_directory(path: Path) -> Run | Search:
    """Return the run or the search in a directory, finished or not."""
    return Search.open(path) if Search.is_at(path) else Run.open(path)
