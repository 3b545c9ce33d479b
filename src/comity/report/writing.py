"""Reports as files: pictures, the page, and the script that pages share."""

from __future__ import annotations

from pathlib import Path

from comity.core.storage import write_whole
from comity.report import PAGE, FigureKind
from comity.report.figures import (
    draw_comparison,
    draw_plan,
    draw_reproduction,
    draw_run,
    draw_search,
    draw_searches,
    draw_tuning,
)
from comity.report.html.comparison_page import comparison_page
from comity.report.html.plotly import write_script
from comity.report.html.run_page import run_page
from comity.report.html.search_page import search_page, searches_page
from comity.report.html.tuning_page import tuning_page
from comity.report.series.learning import Runs
from comity.report.table_files import CSV, LATEX, comparison_csv, comparison_latex
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults
from comity.searches import Search
from comity.searches.comparison import SearchComparison
from comity.tuning import Tuning


def report_run(run: Run, kind: FigureKind) -> Path:
    """Write the report of a finished run."""
    page, pictures = run.path / PAGE, draw_run(run, kind)
    return _write(page, run_page(run, pictures, write_script(page)))


def report_comparison(
    path: Path, comparison: ComparisonResults, runs: Runs, kind: FigureKind
) -> Path:
    """Write the report of a finished comparison."""
    path.mkdir(parents=True, exist_ok=True)
    write_whole(path / CSV, comparison_csv(comparison).encode())
    write_whole(path / LATEX, comparison_latex(comparison).encode())
    page, pictures = path / PAGE, draw_comparison(path, comparison, runs, kind)
    return _write(page, comparison_page(comparison, runs, pictures, write_script(page)))


def report_search(search: Search, kind: FigureKind) -> Path:
    """Write the report of a finished search."""
    page, pictures = search.path / PAGE, draw_search(search, kind)
    return _write(page, search_page(search, pictures, write_script(page)))


def report_searches(comparison: SearchComparison, kind: FigureKind) -> Path:
    """Write the report of a finished comparison of searches."""
    page, pictures = comparison.path / PAGE, draw_searches(comparison, kind)
    return _write(page, searches_page(comparison, pictures, write_script(page)))


def report_tuning(tuning: Tuning, kind: FigureKind) -> Path:
    """Write the report of a finished tuning."""
    return _write(tuning.path / PAGE, tuning_page(tuning, draw_tuning(tuning, kind)))


def _write(path: Path, page: str) -> Path:
    write_whole(path, page.encode())
    return path


__all__ = [
    "draw_plan",
    "draw_reproduction",
    "report_comparison",
    "report_run",
    "report_search",
    "report_searches",
    "report_tuning",
]
