"""Tables of a run."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.captions import marks_text, privacy_text, reference_text, run_remarks
from comity.report.measures import (
    baselines,
    has_single_objective,
    kept_and_last,
    number,
    preference_text,
    regret_of,
)
from comity.report.names import name_of
from comity.report.over_alone import COMPANION_HEADINGS, companion_cells, companions_text
from comity.report.tables.layout import empty_table, fill_measures
from comity.report.terms import terms_of
from comity.runs.schema import Results


def run_table(results: Results) -> Table:
    """Return a run's measures: kept and last models beside the trivial baseline and the optimum."""
    algorithm = results["algorithm"]
    if "wrapper" in results:
        algorithm += f"+{results['wrapper'].replace(',', '+')}"
    table = empty_table(
        f"{algorithm} on {results['problem']}, seed {results['seed']}",
        _run_caption(results),
    )
    columns = {**kept_and_last(results), **baselines(results)}
    return fill_measures(table, columns, has_single_objective(results))


def _run_caption(results: Results) -> str:
    strict = results.get("strict_reference_point")
    caption = reference_text(results["reference_point"], strict)
    private = [privacy_text(results["privacy"])] if "privacy" in results else []
    if "samples" not in results:
        return ". ".join([*([caption] if caption else []), *private])
    start = [f"{part}." for part in (caption, *private) if part]
    return " ".join([*start, f"Trivial: {terms_of(results).trivial}.", *run_remarks(results)])


def clients_table(results: Results) -> Table:
    """Return one row per client: its preference, if there are several objectives, and scores."""
    clients, single_objective = results["per_client"], has_single_objective(results)
    table = empty_table("Clients", marks_text(clients) + companions_text(clients) or None)
    table.add_column("client")
    if not single_objective:
        table.add_column("preference")
    for name in clients[0]["objectives"]:
        table.add_column(Text(name), justify="right", style="bold" if single_objective else "")
    if not single_objective:
        table.add_column("scalarised", justify="right", style="bold")
    if "optimum" in clients[0]:
        table.add_column("regret", justify="right")
    spent = results["privacy"].get("per_client") if "privacy" in results else None
    if spent is not None:
        table.add_column("epsilon", justify="right")
    marked = all("mark" in client for client in clients)
    if marked:
        table.add_column("trivial", justify="right")
        table.add_column("outcome")
    accompanied = all("alone" in client for client in clients)
    for heading in COMPANION_HEADINGS if accompanied else ():
        table.add_column(heading, justify="left" if heading == "keeps" else "right")
    for row, client in enumerate(clients):
        table.add_row(
            Text(name_of(client)),
            *([] if single_objective else [preference_text(client["preference"])]),
            *(number(value) for value in client["objectives"].values()),
            *([] if single_objective else [number(client["scalarised"])]),
            *([number(regret_of(client))] if "optimum" in client else []),
            *([] if spent is None else [number(spent[row], 3)]),
            *([number(client["trivial"]), client["mark"]] if marked else []),
            *(companion_cells(client["alone"]) if accompanied else []),
        )
    return table
