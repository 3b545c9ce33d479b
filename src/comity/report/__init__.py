"""Reports on runs, searches and comparisons as pictures, pages and tables.

Drawing libraries are slow to import: only `comity.report.writing` imports them, when a report is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from comity.report.series.learning import Runs
    from comity.runs.compare import Comparison
    from comity.runs.directory import Run
    from comity.runs.schema import ComparisonResults
    from comity.searches import Search
    from comity.searches.comparison import SearchComparison
    from comity.tuning import Tuning

PAGE = "report.html"
"""The name of the page in a directory."""
FigureKind = Literal["png", "pdf", "svg"]
"""Formats of pictures. Pages show PNG, which is always written."""


def write_report(run: Run, kind: FigureKind = "png") -> Path:
    """Draw a finished run's pictures into its directory, and return the page that shows them.

    Args:
        run: The run.
        kind: Format in which pictures are written beside PNG.
    """
    from comity.report import writing

    return writing.report_run(run, kind)


def write_comparison_report(
    path: Path, comparison: ComparisonResults, runs: Runs, kind: FigureKind = "png"
) -> Path:
    """Draw a comparison's pictures into a directory, and return the page that shows them.

    Args:
        path: The directory.
        comparison: The content of ``comparison.json``.
        runs: The runs behind each row by entry and preference distribution, one per seed.
        kind: Format in which pictures are written beside PNG.
    """
    from comity.report import writing

    return writing.report_comparison(path, comparison, runs, kind)


def write_search_report(search: Search, kind: FigureKind = "png") -> Path:
    """Draw a finished search's pictures into its directory, and return the page that shows them.

    Args:
        search: The search.
        kind: Format in which pictures are written beside PNG.
    """
    from comity.report import writing

    return writing.report_search(search, kind)


def write_searches_report(comparison: SearchComparison, kind: FigureKind = "png") -> Path:
    """Draw the pictures of a comparison of searches, and return the page that shows them.

    Args:
        comparison: The comparison.
        kind: Format in which pictures are written beside PNG.
    """
    from comity.report import writing

    return writing.report_searches(comparison, kind)


def write_tuning_report(tuning: Tuning, kind: FigureKind = "png") -> Path:
    """Draw a finished tuning's pictures into its directory, and return the page that shows them.

    Args:
        tuning: The tuning.
        kind: Format in which pictures are written beside PNG.
    """
    from comity.report import writing

    return writing.report_tuning(tuning, kind)


def write_reproduction(
    path: Path,
    results: Mapping[str, Any],
    comparisons: Sequence[Comparison | SearchComparison] = (),
    kind: FigureKind = "png",
) -> None:
    """Draw our figures beside the printed ones of a table into a directory.

    Args:
        path: The directory.
        results: The figures, as in the table's JSON file.
        comparisons: The comparisons behind the table.
        kind: Format in which pictures are written beside PNG.
    """
    from comity.report import writing

    writing.draw_reproduction(path, results, comparisons, kind)


__all__ = [
    "PAGE",
    "FigureKind",
    "write_comparison_report",
    "write_report",
    "write_reproduction",
    "write_search_report",
    "write_searches_report",
    "write_tuning_report",
]
