"""Reports on runs, searches and comparisons as pictures, pages and tables.

Drawing libraries are slow to import: only `comity.report.writing` imports them, when a report is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comity.report.series.learning import Runs
    from comity.runs.compare import Comparison
    from comity.runs.directory import Run
    from comity.runs.schema import ComparisonResults
    from comity.searches import Search
    from comity.searches.comparison import SearchComparison

PAGE = "report.html"
"""The name of the page in a directory."""


def write_report(run: Run, scripts: Path | None = None) -> Path:
    """Draw a finished run's pictures into its directory, and return the page that shows them.

    Args:
        run: The run.
        scripts: The directory of plotly's script, which many pages can share. Without one it is
            that of the comparison that the run belongs to, or else the run's own.
    """
    from comity.report import writing

    return writing.report_run(run, scripts)


def write_comparison_report(path: Path, comparison: ComparisonResults, runs: Runs) -> Path:
    """Draw a comparison's pictures into a directory, and return the page that shows them.

    Args:
        path: The directory.
        comparison: The content of ``comparison.json``.
        runs: The runs behind each row by entry and preference distribution, one per seed.
    """
    from comity.report import writing

    return writing.report_comparison(path, comparison, runs)


def write_search_report(search: Search, scripts: Path | None = None) -> Path:
    """Draw a finished search's pictures into its directory, and return the page that shows them.

    Args:
        search: The search.
        scripts: The directory of plotly's script, as for `write_report`.
    """
    from comity.report import writing

    return writing.report_search(search, scripts)


def write_searches_report(comparison: SearchComparison) -> Path:
    """Draw the pictures of a comparison of searches, and return the page that shows them."""
    from comity.report import writing

    return writing.report_searches(comparison)


def write_reproduction(
    path: Path,
    results: Mapping[str, Any],
    comparisons: Sequence[Comparison | SearchComparison] = (),
) -> None:
    """Draw our figures beside the printed ones of a table into a directory.

    Args:
        path: The directory.
        results: The figures, as in the table's JSON file.
        comparisons: The comparisons behind the table.
    """
    from comity.report import writing

    writing.draw_reproduction(path, results, comparisons)


__all__ = [
    "PAGE",
    "write_comparison_report",
    "write_report",
    "write_reproduction",
    "write_search_report",
    "write_searches_report",
]
