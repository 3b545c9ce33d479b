"""Tables of tunings."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.tables.layout import empty_table, entry_text
from comity.report.tunings import (
    TUNINGS,
    trial_headings,
    trial_rows,
    trials_caption,
    tuning_headings,
    tuning_rows,
)
from comity.runs.schema import ComparisonResults
from comity.tuning import Tuning


def trials_table(tuning: Tuning) -> Table:
    """Return one row per trial, best first."""
    results = tuning.results
    title = f"{results['algorithm']} on {results['problem']}, trials"
    table = empty_table(title, trials_caption(results))
    headings = trial_headings(results)
    if len(headings) > 6:
        table.padding = 0
    table.add_column("trial", no_wrap=True)
    for heading in headings[1:]:
        table.add_column(Text(heading.replace(".", ".\n")), justify="right")
    for row, cells in trial_rows(tuning):
        style = "bold green" if row["trial"] == results["chosen"] else ""
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return table


def tunings_table(comparison: ComparisonResults) -> Table | None:
    """Return how the entries of a comparison were tuned; None where none was.

    Args:
        comparison: The content of ``comparison.json``.
    """
    if "tuned" not in comparison:
        return None
    table = empty_table("Tuning", TUNINGS)
    table.padding = 0
    for place, heading in enumerate(tuning_headings()):
        table.add_column(heading, justify="left" if place < 3 else "right")
    for row in tuning_rows(comparison["tuned"]):
        table.add_row(entry_text(row[0]), *map(Text, row[1:]))
    return table
