"""Whatever Comity has written, opened again."""

from __future__ import annotations

from pathlib import Path

from comity.runs.compare import PLAN, Comparison, open_comparison
from comity.runs.directory import Run
from comity.searches.comparison import PLAN as SEARCHES
from comity.searches.comparison import SearchComparison, open_searches
from comity.searches.directory import Search


def open(path: str | Path) -> Run | Comparison | Search | SearchComparison:
    """A run, a search, or a finished comparison of either, on disk."""
    path = Path(path)
    if (path / PLAN).is_file():
        return open_comparison(path)
    if (path / SEARCHES).is_file():
        return open_searches(path)
    return Search.open(path) if Search.is_at(path) else Run.open(path)
