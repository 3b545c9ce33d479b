"""Printed tables beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rich.table import Table
from rich.text import Text

from comity.report.measures import display_names, mean_and_std, number, vector
from comity.report.tables.layout import empty_table
from comity.runs.schema import (
    PerClientResults,
    ReproductionResults,
    ReproductionRow,
    SearchReproductionResults,
)


def reproduction_table(results: Mapping[str, Any]) -> Table:
    """Return a printed table beside ours, under the paper's protocol and our defaults.

    ``results`` is the JSON content of the reproduction: of one measure on one problem, or of
    hypervolumes per client.
    """
    if results["measure"] == "own_hypervolume":
        return _per_client(cast(PerClientResults, results))
    return _one_measure(cast(ReproductionResults, results))


def _one_measure(results: ReproductionResults) -> Table:
    """Return the table of one measure on one problem."""
    table = empty_table(f"{results['table']}: {results['measure']} on {results['problem']}", None)
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
            mean_and_std(row["printed"]),
            mean_and_std(row["paper_protocol"]),
            mean_and_std(row["our_defaults"]),
            number(row["trivial"]),
            number(row["optimum"]),
        )
    return table


def _per_client(results: PerClientResults) -> Table:
    """Return the table of hypervolumes per client: one protocol, several problems."""
    caption = (
        f"Reference point: {vector(results['reference_point'])}. Constant: the classifier that "
        "gives one answer to everything. Possible: for one centralised model, with the true "
        "densities and a threshold for each group."
    )
    seconds = results.get("seconds", [])
    timed = any(time["printed"] is not None for time in seconds)
    if timed:
        caption += " Seconds of training: ours here, mean over seeds; printed: on the authors' GPU."
    public = results.get("reading") == "public"
    title = f"{results['table']}: hypervolume per client"
    table = empty_table(title + ", with defects of the public code" * public, caption)
    by_clients = results["across"] == "clients"
    first = "clients" if by_clients else "problem"
    for heading in (first, "algorithm", "printed", "ours", "constant", "possible"):
        table.add_column(heading, no_wrap=True, justify="right" if table.columns[1:] else "left")
    if timed:
        table.add_column("seconds (ours, printed)", justify="right")
    for place, row in enumerate(results["rows"]):
        name = display_names([row])[row["algorithm"]].replace(" (", "\n(")
        ours = f"{row['ours']['mean']:.3f} ± {row['ours']['std']:.3f}"
        others = (number(value, 3) for value in (row["trivial"], row["reference"]))
        about = str(row["clients"]) if by_clients else row["problem"].removeprefix("praffl-")
        times = [seconds[place]["ours"]["mean"], seconds[place]["printed"]] if timed else []
        last = [", ".join(number(value, 3) for value in times)] if timed else []
        table.add_row(about, Text(name), number(row["printed"]["mean"], 3), ours, *others, *last)
    return table


def _with_dropped(table: Table, rows: Sequence[ReproductionRow]) -> Table:
    """Fill the table of clients with data: with the shares of points that count for nothing."""
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
        columns = (row["printed"], row["paper_protocol"], row["our_defaults"])
        means = [column["mean"] for column in columns]
        values = [*means, row["trivial"], *row["dropped"].values(), row["strict_hypervolume"]]
        table.add_row(Text(row["algorithm"]), *(number(value, 3) for value in values))
    return table


def search_reproduction_table(results: Mapping[str, Any]) -> Table:
    """Return a printed table of searches beside ours, with the control of random weights.

    ``results`` is the JSON content of the reproduction.
    """
    content = cast(SearchReproductionResults, results)
    table = empty_table(
        f"{content['table']} on {content['problem']}",
        f"Rows: clients/steps between averagings. Reference point of the hypervolume: "
        f"{vector(content['reference_point'])}",
    )
    for heading in ("measure", "row"):
        table.add_column(heading, no_wrap=True)
    for heading in ("printed", "paper's protocol", "our defaults", "random weights", "optimum"):
        table.add_column(heading, justify="right")
    for row in content["rows"]:
        ours = (row["paper_protocol"], row["our_defaults"], row["random_control"])
        cells = [mean_and_std(column) for column in (row["printed"], *ours)]
        table.add_row(row["measure"], row["row"], *cells, number(row["optimum"]))
    return table
