"""Tables of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from comity.report.measures import number, single
from comity.report.tables.layout import (
    baselines,
    blank,
    judged,
    measured,
    preference_text,
    reference_text,
    regret_of,
    remarks,
)
from comity.report.terms import words_of


def run_table(results: Mapping[str, Any]) -> Table:
    """A run's measures: kept and last models beside the trivial policy and the optimum."""
    algorithm = "+".join(results[key] for key in ("algorithm", "wrapper") if key in results)
    table = blank(
        f"{algorithm} on {results['problem']}, seed {results['seed']}",
        _run_caption(results),
    )
    return measured(table, {**judged(results), **baselines(results)}, single(results))


def _run_caption(results: Mapping[str, Any]) -> str:
    caption = reference_text(results)
    if "samples" not in results:
        return caption
    start = [f"{caption}."] if caption else []
    return " ".join([*start, f"Trivial: {words_of(results).trivial}.", *remarks(results)])


def clients_table(results: Mapping[str, Any]) -> Table:
    """What each client wants and what it got; all want a single objective alike."""
    clients, alone = results["per_client"], single(results)
    table = blank("Clients", None)
    table.add_column("client", justify="right")
    if not alone:
        table.add_column("preference")
    for name in clients[0]["objectives"]:
        table.add_column(Text(name), justify="right", style="bold" if alone else "")
    if not alone:
        table.add_column("scalarised", justify="right", style="bold")
    if "optimum" in clients[0]:
        table.add_column("regret", justify="right")
    for client in clients:
        table.add_row(
            str(client["client"]),
            *([] if alone else [preference_text(client["preference"])]),
            *(number(value) for value in client["objectives"].values()),
            *([] if alone else [number(client["scalarised"])]),
            *([number(regret_of(client))] if "optimum" in client else []),
        )
    return table
