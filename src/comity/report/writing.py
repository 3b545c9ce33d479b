"""Reports as files: pictures, the page, and the script that pages share."""

from __future__ import annotations

from pathlib import Path

from comity.core.storage import write_whole
from comity.report import PAGE
from comity.report.figures import (
    draw_comparison,
    draw_reproduction,
    draw_run,
    draw_search,
    draw_searches,
)
from comity.report.html.comparison_page import comparison_page
from comity.report.html.plotly import write_script
from comity.report.html.run_page import run_page
from comity.report.html.search_page import search_page, searches_page
from comity.report.measures import has_single_objective
from comity.report.series.learning import Runs
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults
from comity.searches import Search
from comity.searches.comparison import SearchComparison


def report_run(run: Run, scripts: Path | None) -> Path:
    """Write the report of a finished run."""
    page, pictures = run.path / PAGE, draw_run(run)
    script = None if has_single_objective(run.results) else write_script(page, scripts)
    return _write(page, run_page(run, pictures, script))


def report_comparison(path: Path, comparison: ComparisonResults, runs: Runs) -> Path:
    """Write the report of a finished comparison."""
    path.mkdir(parents=True, exist_ok=True)
    page, pictures = path / PAGE, draw_comparison(path, comparison, runs)
    return _write(page, comparison_page(comparison, runs, pictures, write_script(page)))


def report_search(search: Search, scripts: Path | None) -> Path:
    """Write the report of a finished search."""
    page, pictures = search.path / PAGE, draw_search(search)
    return _write(page, search_page(search, pictures, write_script(page, scripts)))


def report_searches(comparison: SearchComparison) -> Path:
    """Write the report of a finished comparison of searches."""
    page, pictures = comparison.path / PAGE, draw_searches(comparison)
    return _write(page, searches_page(comparison, pictures, write_script(page)))


def _write(path: Path, page: str) -> Path:
    write_whole(path, page.encode())
    return path


__all__ = [
    "draw_reproduction",
    "report_comparison",
    "report_run",
    "report_search",
    "report_searches",
]
