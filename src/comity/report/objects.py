"""Pictures of a report as figures of matplotlib, without files."""

from __future__ import annotations

from matplotlib.figure import Figure

from comity.errors import UserError, unknown
from comity.report.figures import (
    Drawings,
    comparison_drawings,
    run_drawings,
    search_drawings,
    searches_drawings,
)
from comity.runs.compare import Comparison
from comity.runs.directory import Run
from comity.searches import Search
from comity.searches.comparison import SearchComparison


def figure(finished: Run | Comparison | Search | SearchComparison, name: str) -> Figure:
    """Return a picture of the report as a figure of matplotlib; nothing is written.

    Args:
        finished: A finished run, search or comparison.
        name: Name of the picture, as its file has it: ``"front"``.
    """
    drawings = _drawings(finished)
    if name not in drawings:
        raise unknown("figure", name, drawings)
    drawn = drawings[name]()
    if drawn is None:
        raise UserError(f"figure '{name}': {finished.path} has nothing to show in it.")
    return drawn


def figures(finished: Run | Comparison | Search | SearchComparison) -> dict[str, Figure]:
    """Return all pictures of the report by name, as figures of matplotlib; nothing is written.

    Args:
        finished: A finished run, search or comparison.
    """
    drawn = {name: draw() for name, draw in _drawings(finished).items()}
    return {name: picture for name, picture in drawn.items() if picture is not None}


def _drawings(finished: Run | Comparison | Search | SearchComparison) -> Drawings:
    """Return what draws each picture of the report of something finished, by name."""
    if isinstance(finished, Run):
        return run_drawings(finished)
    if isinstance(finished, Search):
        return search_drawings(finished)
    if isinstance(finished, Comparison):
        return comparison_drawings(finished.results, finished.runs)
    return searches_drawings(finished)
