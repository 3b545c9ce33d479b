"""Tables of a comparison."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.captions import comparison_caption
from comity.report.measures import (
    best_rows,
    by_preferences,
    compared_measures,
    display_names,
    gain_headings,
    gain_text,
    has_data,
    has_single_objective,
    soon_cells,
    soon_headings,
    with_pooled,
)
from comity.report.series.learning import Runs
from comity.report.tables.layout import add_baselines, add_measures, empty_table, measure_cell
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
    best = {measure.name: best_rows(rows, measure) for measure in measures}
    gains, soon = gain_headings(rows, single_objective), soon_headings(rows)
    tables: dict[str, Table] = {}
    for index, row in enumerate(rows):
        kind = row["preferences"]
        if kind not in tables:
            title = comparison["problem"] + ("" if single_objective else f", {kind} preferences")
            tables[kind] = empty_table(title, caption)
            tables[kind].add_column("algorithm", no_wrap=True)
            add_measures(tables[kind], measures, narrow=not single_objective)
            for heading in (*gains, *soon):
                tables[kind].add_column(Text(heading.replace("[", "\n[")), justify="right")
        cells = [measure_cell(row, measure, best[measure.name][index]) for measure in measures]
        cells += [Text(gain_text(row, heading)) for heading in gains]
        cells += [Text(cell) for cell in soon_cells(row)]
        # a label like fedpref[top_r=1] must not be read as markup
        tables[kind].add_row(Text(names[row["algorithm"]].replace(" (", "\n(")), *cells)
    if has_data(comparison):
        for table in tables.values():
            add_baselines(table, comparison, measures, *["–"] * len([*gains, *soon]))
    return list(tables.values())
