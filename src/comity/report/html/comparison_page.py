"""Page of a comparison of algorithms."""

from __future__ import annotations

from comity.report.captions import comparison_caption
from comity.report.columns import sent_cells, sent_headings, soon_cells, soon_headings
from comity.report.gains import gain_headings, gain_rows, gains_caption
from comity.report.html.charts import learning_chart
from comity.report.html.markup import Pictures, page, section, table, text, verdict
from comity.report.html.pictures import baselines_note, picture
from comity.report.measures import (
    Cell,
    baselines,
    by_preferences,
    compared_cells,
    compared_measures,
    display_names,
    has_single_objective,
    number,
    with_pooled,
)
from comity.report.over_alone import over_alone_caption, over_alone_headings, over_alone_rows
from comity.report.series.learning import Runs, first_run
from comity.report.table_files import CSV, LATEX
from comity.report.terms import comparison_terms
from comity.report.tunings import TUNINGS, tuning_headings, tuning_rows
from comity.runs.schema import ComparisonResults, ComparisonRow

_PICTURES = {
    "attacks": "Under attack",
    "bars": "Side by side",
    "traffic": "Quality against megabytes",
    "reaches": "Reach of the clients' models",
    "fronts": "Fronts",
    "solutions": "Solutions",
    "learning": "Learning curves",
    "hours": "Over the hours of the contact plan",
    "conflicts": "Conflicts between clients",
}
"""Pictures of a comparison, with their headings."""


def comparison_page(
    comparison: ComparisonResults, runs: Runs, pictures: Pictures, script: str
) -> str:
    """Return the page of a finished comparison.

    Args:
        comparison: The content of ``comparison.json``.
        runs: The runs behind it.
        pictures: The files of its pictures.
        script: The path of plotly's script relative to the page.
    """
    title = f"Algorithms on {comparison['problem']}"
    chart = learning_chart(comparison, runs)
    charts = {} if chart is None else {"learning": chart}
    terms = comparison_terms(comparison)
    kept = _comparison({**comparison, "rows": with_pooled(comparison)}, runs)
    sentences = comparison["verdict"]["sentences"] if "verdict" in comparison else []
    body = [f"<h1>{text(title)}</h1>", verdict(sentences), section("Measures", kept + _files())]
    if gains := gain_rows(by_preferences(comparison["rows"])):
        headings = gain_headings(comparison["rows"])
        body.append(
            section("Gains, seed by seed", table(headings, gains, gains_caption(comparison)))
        )
    if lone := over_alone_rows(by_preferences(comparison["rows"])):
        headings = over_alone_headings(comparison["rows"])
        caption = over_alone_caption(comparison)
        body.append(section("Better off than alone?", table(headings, lone, caption)))
    if tuned := comparison.get("tuned"):
        body.append(section("Tuning", table(tuning_headings(), tuning_rows(tuned), TUNINGS)))
    if all("metrics_last" in row for row in comparison["rows"]):
        rows: list[ComparisonRow] = [
            {**row, "metrics": row["metrics_last"]} for row in comparison["rows"]
        ]
        for row in rows:
            row.pop("how_soon", None)
        last = _comparison({**comparison, "rows": rows}, runs)
        body.append(f"<details><summary>The same of the last models</summary>{last}</details>")
    first = first_run(runs)
    note = "" if first is None else baselines_note(first.results)
    for name, heading in _PICTURES.items():
        if name in pictures:
            more = note if name in ("fronts", "reaches") else ""
            body.append(section(heading, picture(name, pictures, charts, terms, more)))
    return page(title, body, script if charts else None)


def _files() -> str:
    """Return links to the table as files."""
    return (
        f'<p class="note">The table as a file: <a href="{CSV}">{CSV}</a>, and for a paper '
        f'<a href="{LATEX}">{LATEX}</a> (plain LaTeX, no package). The report of one of the runs, '
        "whose directories lie beside this page, is drawn by <code>comity report DIRECTORY</code>."
        "</p>"
    )


def _comparison(comparison: ComparisonResults, runs: Runs) -> str:
    """Return the table of a comparison, of kept or of last models."""
    rows, single_objective = by_preferences(comparison["rows"]), has_single_objective(comparison)
    measures, names = compared_measures(rows, single_objective), display_names(rows)
    soon, sent = soon_headings(rows), sent_headings(rows)
    compared = compared_cells(rows, measures, comparison.get("trivial"))
    cells: list[list[str | Cell]] = [
        [
            names[row["algorithm"]],
            *([] if single_objective else [row["preferences"]]),
            *values,
            *soon_cells(row),
            *sent_cells(row, sent),
        ]
        for row, values in zip(rows, compared, strict=True)
    ]
    kind = [] if single_objective else ["all"]
    for name, metrics in baselines(comparison).items():
        numbers = [number(metrics.get(m.name)) for m in measures]
        cells.append([name, *kind, *numbers, *["–"] * len([*soon, *sent])])
    header = ["algorithm", *([] if single_objective else ["preferences"])]
    header += [*(m.label + m.arrow for m in measures), *soon, *sent]
    return table(header, cells, comparison_caption(comparison, runs))
