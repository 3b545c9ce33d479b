"""Tables of searches."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.captions import origin_of, search_caption, search_columns, searches_caption
from comity.report.measures import (
    compared_cells,
    fold_label,
    number,
    preference_text,
    with_progress,
    with_unit,
)
from comity.report.tables.layout import (
    add_baselines,
    add_measures,
    empty_table,
    fill_measures,
    measure_cell,
)
from comity.runs.search_schema import SearchComparisonResults, SearchResults
from comity.searches.effort import mean_steps


def points_table(results: SearchResults) -> Table:
    """Return the points of a search's front, with the origin of each."""
    points = results["front"]
    caption = (
        f"Iterations and rounds count from 1, candidates from 0. Models: {points[0]['model']}, …"
    )
    table = empty_table("Front", caption)
    table.add_column("point", justify="right")
    for name in points[0]["objectives"]:
        table.add_column(Text(name), justify="right", style="bold")
    table.add_column("trained for")
    for heading in ("iteration", "candidate", "round"):
        table.add_column(heading, justify="right")
    for point in points:
        table.add_row(
            str(point["point"]),
            *(number(value) for value in point["objectives"].values()),
            preference_text(point["weight"]),
            *origin_of(point),
        )
    return table


def search_table(results: SearchResults) -> Table:
    """Return a search's measures beside its control, the trivial baseline and the optimum."""
    title = f"{results['generator']} search on {results['problem']}, seed {results['seed']}"
    return fill_measures(empty_table(title, search_caption(results)), search_columns(results))


def searches_table(results: SearchComparisonResults) -> Table:
    """Return one row per search: mean ± std over seeds, and costs."""
    measures, rows = with_progress(results["rows"], [50])
    table = empty_table(f"Searches on {results['problem']}", searches_caption(results))
    table.add_column("search", no_wrap=True)
    add_measures(table, measures)
    for heading in ("candi- dates", "steps"):
        table.add_column(heading, justify="right", min_width=6)
    compared = compared_cells(rows, measures, results.get("trivial"))
    for row, row_cells in zip(rows, compared, strict=True):
        cells = map(measure_cell, row_cells)
        steps = with_unit(mean_steps(row), ("", "k", "M", "G"))
        table.add_row(Text(fold_label(row["search"])), *cells, number(row["candidates"]), steps)
    add_baselines(table, results, measures, "–", "–")
    return table
