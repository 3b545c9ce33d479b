"""Printed tables beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from comity.report.measures import number, shown_names, spread, vector
from comity.report.tables.layout import blank


def reproduction_table(results: Mapping[str, Any]) -> Table:
    """A printed table beside what we measured, under the paper's protocol and our defaults."""
    if results["measure"] == "own_hypervolume":
        return _per_client(results)
    table = blank(f"{results['table']}: {results['measure']} on {results['problem']}", None)
    if any("dropped" in row for row in results["rows"]):
        return _with_dropped(table, results["rows"])
    for heading in ("preferences", "algorithm"):
        table.add_column(heading, no_wrap=True)
    for heading in ("printed", "paper's protocol", "our defaults", "trivial", "optimum"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(
            Text(row["preferences"]),
            Text(row["algorithm"]),
            *(spread(row[name]) for name in ("printed", "paper_protocol", "our_defaults")),
            number(row["trivial"]),
            number(row["optimum"]),
        )
    return table


def _per_client(results: Mapping[str, Any]) -> Table:
    """The same of hypervolumes per client: under one protocol, but for several problems."""
    caption = (
        f"Reference point: {vector(results['reference_point'])}. Constant: the classifier that "
        "gives one answer to everything. Possible: for one centralised model, which knows the "
        "densities and has a threshold for each group."
    )
    table = blank(f"{results['table']}: hypervolume per client", caption)
    first = "clients" if results["across"] == "clients" else "problem"
    for heading in (first, "algorithm", "printed", "ours", "constant", "possible"):
        table.add_column(heading, no_wrap=True, justify="right" if table.columns[1:] else "left")
    for row in results["rows"]:
        name = shown_names([row])[row["algorithm"]].replace(" (", "\n(")
        ours = f"{row['ours']['mean']:.3f} ± {row['ours']['std']:.3f}"
        others = (number(value, 3) for value in (row["trivial"], row["reference"]))
        about = str(row[first]).removeprefix("praffl-"), Text(name)
        table.add_row(*about, number(row["printed"]["mean"], 3), ours, *others)
    return table


def _with_dropped(table: Table, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The same of clients with data: with the shares of points that count for nothing."""
    table.caption = (
        "Last: the models of the last round, the paper's protocol; kept: the best validated ones, "
        "our default. Constant: the classifier that gives one answer to everything. Dropped: the "
        "share of points left out as trivially fair."
    )
    table.add_column("algorithm", no_wrap=True)
    for heading in ("printed", "last", "kept", "constant", "dropped, last", "dropped, kept"):
        table.add_column(heading, justify="right", min_width=len(heading.partition(" ")[0]))
    table.add_column("strict, kept", justify="right")
    for row in rows:
        means = [row[name]["mean"] for name in ("printed", "paper_protocol", "our_defaults")]
        values = [*means, row["trivial"], *row["dropped"].values(), row["strict_hypervolume"]]
        table.add_row(Text(row["algorithm"]), *(number(value, 3) for value in values))
    return table


def search_reproduction_table(results: Mapping[str, Any]) -> Table:
    """A printed table of searches beside ours, with the control of random weights."""
    table = blank(
        f"{results['table']} on {results['problem']}",
        f"Rows: clients/steps between averagings. Reference point of the hypervolume: "
        f"{vector(results['reference_point'])}",
    )
    for heading in ("measure", "row"):
        table.add_column(heading, no_wrap=True)
    columns = ("printed", "paper_protocol", "our_defaults", "random_control")
    for heading in ("printed", "paper's protocol", "our defaults", "random weights", "optimum"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        cells = [spread(row[name]) for name in columns]
        table.add_row(row["measure"], row["row"], *cells, number(row["optimum"]))
    return table
