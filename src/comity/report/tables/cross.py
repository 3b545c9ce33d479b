"""Tables of every model for every client."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.measures import number
from comity.report.series.cross import has_own_models, served, values
from comity.report.tables.layout import empty_table
from comity.runs.group_schema import Cross

_WIDEST = 10  # more clients than this have no room side by side
NOTE = "Values are scalarised by the preference of the client whose data it is."


def cross_tables(cross: Cross) -> list[Table]:
    """Return the matrix of models and clients, if it fits, and how each client is served."""
    tables = [_matrix(cross)] if len(cross["clients"]) <= _WIDEST else []
    return [*tables, _served(cross)]


def _matrix(cross: Cross) -> Table:
    table = empty_table("Models (rows) for clients (columns)", NOTE)
    table.add_column("model of" if has_own_models(cross) else "model")
    for name in cross["clients"]:
        table.add_column(Text(name), justify="right")
    for number_of_model, (name, row) in enumerate(zip(cross["models"], values(cross), strict=True)):
        cells = [Text(number(value)) for value in row]
        if has_own_models(cross):
            cells[number_of_model].stylize("bold")
        table.add_row(Text(name), *cells)
    return table


def _served(cross: Cross) -> Table:
    own = has_own_models(cross)
    table = empty_table("How each client is served", None)
    table.add_column("client")
    headings = ["own model", "best model", "its value", "mean of others"] if own else ["model"]
    for heading in (*headings, "trivial"):
        table.add_column(heading, justify="right")
    for row in served(cross):
        cells = [number(row.best_value)]
        if own:
            best = "its own" if row.best == row.client else row.best
            cells = [number(row.own), best, number(row.best_value), number(row.others)]
        table.add_row(*map(Text, (row.client, *cells, number(row.trivial))))
    return table
