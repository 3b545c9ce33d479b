"""Tables of a comparison."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.captions import comparison_caption
from comity.report.columns import sent_cells, sent_headings, soon_cells, soon_headings
from comity.report.gains import gain_headings, gain_rows, gains_caption
from comity.report.measures import (
    by_preferences,
    compared_cells,
    compared_measures,
    display_names,
    has_single_objective,
    with_pooled,
)
from comity.report.over_alone import over_alone_caption, over_alone_headings, over_alone_rows
from comity.report.series.learning import Runs
from comity.report.tables.layout import (
    add_baselines,
    add_measures,
    empty_table,
    entry_text,
    measure_cell,
)
from comity.runs.schema import ComparisonResults


def comparison_tables(comparison: ComparisonResults, runs: Runs | None = None) -> list[Table]:
    """Return one table per preference distribution, one row per algorithm: mean ± std over seeds.

    Args:
        comparison: The content of ``comparison.json``.
        runs: The runs behind it; the first gives the strict reference point.
    """
    rows, single_objective = (
        by_preferences(with_pooled(comparison)),
        has_single_objective(comparison),
    )
    measures, names = compared_measures(rows, single_objective), display_names(rows)
    caption = comparison_caption({**comparison, "rows": rows}, runs or {})
    compared, soon = compared_cells(rows, measures, comparison.get("trivial")), soon_headings(rows)
    sent = sent_headings(rows)
    tables: dict[str, Table] = {}
    for row, row_cells in zip(rows, compared, strict=True):
        kind = row["preferences"]
        if kind not in tables:
            title = comparison["problem"] + ("" if single_objective else f", {kind} preferences")
            tables[kind] = empty_table(title, caption)
            tables[kind].add_column("algorithm", no_wrap=True)
            add_measures(tables[kind], measures, narrow=not single_objective)
            for heading in (*soon, *sent):
                tables[kind].add_column(Text(heading.replace("[", "\n[")), justify="right")
        further = [*soon_cells(row), *sent_cells(row, sent)]
        cells = [*map(measure_cell, row_cells), *map(Text, further)]
        tables[kind].add_row(entry_text(names[row["algorithm"]].replace(" (", "\n(")), *cells)
    for table in tables.values():
        add_baselines(table, comparison, measures, *["–"] * len([*soon, *sent]))
    return list(tables.values())


def gains_table(comparison: ComparisonResults) -> Table | None:
    """Return the gains of entries over others, seed by seed; None where nothing is compared.

    Args:
        comparison: The content of ``comparison.json``.
    """
    rows = by_preferences(comparison["rows"])
    cells, headings = gain_rows(rows), gain_headings(rows)
    if not cells:
        return None
    table = empty_table("Gains, seed by seed", gains_caption(comparison))
    return _filled(table, headings, headings.index("over") + 1, cells)


def over_alone_table(comparison: ComparisonResults) -> Table | None:
    """Return each client beside learning alone; None where nobody does, or clients lack names.

    Args:
        comparison: The content of ``comparison.json``.
    """
    rows = by_preferences(comparison["rows"])
    cells, headings = over_alone_rows(rows), over_alone_headings(rows)
    if not cells:
        return None
    table = empty_table("Better off than alone?", over_alone_caption(comparison))
    return _filled(table, headings, headings.index("client") + 1, cells)


def _filled(table: Table, headings: list[str], texts: int, cells: list[list[str]]) -> Table:
    """Return a table with headings and cells; the first ``texts`` columns are text."""
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < texts else "right")
    for row in cells:
        named = zip(headings, row, strict=True)
        table.add_row(
            *(
                entry_text(cell) if name in ("algorithm", "over") else Text(cell)
                for name, cell in named
            )
        )
    return table
