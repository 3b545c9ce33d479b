"""Tables of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from comity.report.measures import (
    OVER_HOST,
    arranged,
    best,
    compared,
    has_data,
    paired,
    pairings,
    shown_names,
    single,
    with_pooled,
)
from comity.report.tables.layout import (
    add_measures,
    add_yardsticks,
    blank,
    measure_cell,
    over_seeds,
    reference_text,
    remarks,
)
from comity.report.terms import words_of

if TYPE_CHECKING:
    from comity.report.figures.learning import Runs


def comparison_tables(comparison: Mapping[str, Any], runs: Runs | None = None) -> list[Table]:
    """One table a preference distribution, one row an algorithm: mean ± std over seeds."""
    rows, alone = arranged(with_pooled(comparison)), single(comparison)
    measures, names = compared(rows, alone), shown_names(rows)
    caption = comparison_caption({**comparison, "rows": rows}, runs or {})
    marks = {measure.name: best(rows, measure) for measure in measures}
    differences = pairings(rows, alone)
    tables: dict[str, Table] = {}
    for place, row in enumerate(rows):
        kind = row["preferences"]
        if kind not in tables:
            title = comparison["problem"] + ("" if alone else f", {kind} preferences")
            tables[kind] = blank(title, caption)
            tables[kind].add_column("algorithm", no_wrap=True)
            add_measures(tables[kind], measures, narrow=not alone)
            for heading in differences:
                tables[kind].add_column(Text(heading.replace("[", "\n[")), justify="right")
        cells = [measure_cell(row, measure, marks[measure.name][place]) for measure in measures]
        cells += [Text(paired(row, heading)) for heading in differences]
        # a label like fedpref[top_r=1] must not be read as markup
        tables[kind].add_row(Text(names[row["algorithm"]].replace(" (", "\n(")), *cells)
    if has_data(comparison):
        for table in tables.values():
            add_yardsticks(table, comparison, measures, *["–"] * len(differences))
    return list(tables.values())


def comparison_caption(comparison: Mapping[str, Any], runs: Runs) -> str:
    rows, alone = comparison["rows"], single(comparison)
    first = next((run.results for seeds in runs.values() for run in seeds), comparison)
    among = "" if alone else " of each preference distribution"
    parts = [f"{over_seeds(comparison)}; the best{among} is marked ★", reference_text(first)]
    if has_data(comparison):
        if not alone and any("pooled_hypervolume" in row["metrics"] for row in rows):
            parts.append("Pooled: of all seeds' clients as one set")
        parts += [f"Trivial: {words_of(comparison).trivial}", *remarks(comparison)]
    if differences := pairings(rows, alone):
        of = compared(rows, alone)[0].label if alone else "mean scalarised value"
        what = f"mean ± standard deviation of what {of} gains, seed by seed"
        parts.append(f"Over …: {what}")
        if OVER_HOST in differences:
            parts.append("The host: the same algorithm without the wrapper")
    return ". ".join(part.removesuffix(".") for part in parts if part) + "."
