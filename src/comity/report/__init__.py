"""Reports: what runs, searches and comparisons ended with, as pictures, pages and tables.

Drawing libraries are slow to import, so they are imported only when a report is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comity.runs.directory import Run
    from comity.searches import Search
    from comity.searches.comparison import SearchComparison

PAGE = "report.html"


def write_report(run: Run) -> Path:
    """Draw a finished run's pictures into its directory, and the page that holds them."""
    from comity.report.figures import draw_run
    from comity.report.html.page import run_page

    pictures = draw_run(run)
    return _write(run.path / PAGE, run_page(run, pictures))


def write_comparison_report(
    path: Path, comparison: Mapping[str, Any], runs: Mapping[tuple[str, str], Sequence[Run]]
) -> Path:
    """Draw a comparison's pictures into the directory ``path``, and the page that holds them.

    ``runs`` has the runs behind each row under (algorithm, preferences), one per seed.
    """
    from comity.report.figures import draw_comparison
    from comity.report.html.page import comparison_page

    path.mkdir(parents=True, exist_ok=True)
    pictures = draw_comparison(path, comparison, runs)
    return _write(path / PAGE, comparison_page(comparison, runs, pictures))


def write_search_report(search: Search) -> Path:
    """Draw a finished search's pictures into its directory, and the page that holds them."""
    from comity.report.figures import draw_search
    from comity.report.html.search_page import search_page

    pictures = draw_search(search)
    return _write(search.path / PAGE, search_page(search, pictures))


def write_searches_report(comparison: SearchComparison) -> Path:
    """Draw the pictures of a comparison of searches, and the page that holds them."""
    from comity.report.figures import draw_searches
    from comity.report.html.search_page import searches_page

    pictures = draw_searches(comparison)
    return _write(comparison.path / PAGE, searches_page(comparison, pictures))


def _write(path: Path, page: str) -> Path:
    from comity.core.storage import write_whole

    write_whole(path, page.encode())
    return path


__all__ = [
    "PAGE",
    "write_comparison_report",
    "write_report",
    "write_search_report",
    "write_searches_report",
]
