"""Tables for the terminal, and the words that pages share with them."""

from __future__ import annotations

from comity.report.tables.comparisons import comparison_caption, comparison_tables
from comity.report.tables.layout import (
    baselines,
    judged,
    preference_text,
    reference_text,
    regret_of,
    remarks,
)
from comity.report.tables.reproductions import reproduction_table, search_reproduction_table
from comity.report.tables.runs import clients_table, run_table
from comity.report.tables.searches import (
    origin_of,
    points_table,
    search_caption,
    search_table,
    searched,
    searches_caption,
    searches_table,
)

__all__ = [
    "baselines",
    "clients_table",
    "comparison_caption",
    "comparison_tables",
    "judged",
    "origin_of",
    "points_table",
    "preference_text",
    "reference_text",
    "regret_of",
    "remarks",
    "reproduction_table",
    "run_table",
    "search_caption",
    "search_reproduction_table",
    "search_table",
    "searched",
    "searches_caption",
    "searches_table",
]
