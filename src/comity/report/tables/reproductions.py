"""Printed tables beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from rich.table import Table
from rich.text import Text

from comity.report.captions import model_heading, reproduction_caption
from comity.report.measures import display_names, mean_and_std, number, vector
from comity.report.tables.layout import empty_table
from comity.report.tables.pictured import clusters_table, ranges_table, two_tasks_table
from comity.report.tables.pictures import picture_table
from comity.report.tables.spanned import spanned_table
from comity.runs.reproduction_schema import (
    ClusterResults,
    PerClientResults,
    PictureResults,
    RangeResults,
    ReproductionResults,
    SearchReproductionResults,
    TwoTaskResults,
)


def reproduction_table(results: Mapping[str, Any]) -> Table:
    """Return a printed table beside ours, under the paper's protocol and our defaults.

    ``results`` is the JSON content of the reproduction: of one problem, of hypervolumes per
    client, of accuracies on pictures, or of one of the kinds in `pictured`.
    """
    if "measures" in results:
        return picture_table(cast(PictureResults, results))
    if "shows" in results:
        return spanned_table(cast(PerClientResults, results))
    if results["measure"] == "own_hypervolume":
        return _per_client(cast(PerClientResults, results))
    if results["measure"] == "clusters":
        return clusters_table(cast(ClusterResults, results))
    if results["measure"] == "ranges":
        return ranges_table(cast(RangeResults, results))
    if results["measure"] == "two_tasks":
        return two_tasks_table(cast(TwoTaskResults, results))
    return _one_problem(cast(ReproductionResults, results))


def _one_problem(results: ReproductionResults) -> Table:
    """Return the table of one or several measures on one problem."""
    rows = results["rows"]
    if any("dropped" in row for row in rows):
        return _with_dropped(results)
    measure, across = results["measure"], results.get("across")
    measures = {measure or row["measure"] for row in rows}
    point = results.get("reference_point") if "hypervolume" in measures else None
    title = f"{results['table']}: {measure or 'several measures'} on {results['problem']}"
    by_preferences = across is None and measure is not None
    if not by_preferences:
        title += f", {rows[0]['preferences']} preferences"
    table = empty_table(title, reproduction_caption(results, point) or None)
    first = [across or "algorithm"]
    if by_preferences:
        first = ["preferences", *first]
    elif measure is None:
        first = ["measure", *first]
    for heading in first:
        table.add_column(heading, no_wrap=True)
    columns = [c for c in ("printed", "paper_protocol", "our_defaults") if c in rows[0]]
    for heading in (*(model_heading(results, c) for c in columns), "trivial", "optimum"):
        table.add_column(heading, justify="right")
    for row in rows:
        values = cast(Mapping[str, Any], row)
        table.add_row(
            *(Text(str(values[heading])) for heading in first),
            *(mean_and_std(values[column]) for column in columns),
            number(row["trivial"]),
            number(row["optimum"]),
        )
    return table


def _per_client(results: PerClientResults) -> Table:
    """Return the table of hypervolumes per client: one protocol, several problems."""
    source = results.get("reference_point_source")
    origin = f", {source}" if source else ""
    caption = (
        f"{reproduction_caption(results)} Reference point: {vector(results['reference_point'])}"
        f"{origin}. Constant: the classifier that gives one answer to everything. Possible: for "
        "one centralised model, with the true densities and a threshold for each group."
    )
    seconds = results.get("seconds", [])
    timed = any(time["printed"] is not None for time in seconds)
    if timed:
        caption += " Seconds of training: ours here, mean over seeds; printed: on the authors' GPU."
    public = results.get("reading") == "public"
    title = f"{results['table']}: hypervolume per client"
    table = empty_table(title + ", with defects of the public code" * public, caption.strip())
    by_clients = results["across"] == "clients"
    first = "clients" if by_clients else "problem"
    columns = [model_heading(results, column) for column in ("printed", "ours")]
    for heading in (first, "algorithm"):
        table.add_column(heading, no_wrap=True)
    for heading in (*columns, "constant", "possible"):
        table.add_column(heading, justify="right")
    if timed:
        table.add_column("seconds (ours, printed)", justify="right")
    for place, row in enumerate(results["rows"]):
        name = display_names([row])[row["algorithm"]].replace(" (", "\n(")
        std = row["ours"]["std"]
        ours = f"{row['ours']['mean']:.3f}" + ("" if std is None else f" ± {std:.3f}")
        others = (number(value, 3) for value in (row["trivial"], row["reference"]))
        about = str(row["clients"]) if by_clients else row["problem"].removeprefix("praffl-")
        times = [seconds[place]["ours"]["mean"], seconds[place]["printed"]] if timed else []
        last = [", ".join(number(value, 3) for value in times)] if timed else []
        table.add_row(about, Text(name), number(row["printed"]["mean"], 3), ours, *others, *last)
    return table


def _with_dropped(results: ReproductionResults) -> Table:
    """Return the table of clients with data: with the shares of points that count for nothing."""
    title = f"{results['table']}: {results['measure']} on {results['problem']}"
    caption = (
        "Last: the models of the last round, the paper's protocol, as printed; kept: the best "
        "validated ones, our default. Constant: the classifier that gives one answer to "
        "everything. Dropped: the share of points left out as trivially fair."
    )
    if "reference_point" in results and "reference_point_source" in results:
        point, source = vector(results["reference_point"]), results["reference_point_source"]
        caption += f" Reference point: {point}, {source}."
    table = empty_table(title, caption)
    table.add_column("algorithm", no_wrap=True)
    for heading in ("printed", "last", "kept", "constant", "dropped, last", "dropped, kept"):
        table.add_column(heading, justify="right", min_width=len(heading.partition(" ")[0]))
    table.add_column("strict, kept", justify="right")
    for row in results["rows"]:
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
        "Rows: clients/steps between averagings; below each its control, the same search with "
        f"random weights. {reproduction_caption(content, content['reference_point'])}",
    )
    for heading in ("measure", "row"):
        table.add_column(heading, no_wrap=True)
    for column in content["models"]:
        table.add_column(model_heading(content, column), justify="right")
    table.add_column("optimum", justify="right")
    for row in content["rows"]:
        ours = [row[column] for column in ("paper_protocol", "our_defaults") if column in row]
        controls = [
            row[column] for column in ("random_control_paper", "random_control") if column in row
        ]
        cells = [mean_and_std(value) for value in (row["printed"], *ours)]
        table.add_row(row["measure"], row["row"], *cells, number(row["optimum"]))
        table.add_row("", "  random weights", "", *map(mean_and_std, controls))
    return table


def needs_table(tables: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the list of all tables that can be reproduced.

    Args:
        tables: Title, seeds, CPU hours by problem, and what has been measured, by name of the
            table.
    """
    caption = (
        "CPU hours: estimates for all rows and seeds of the table on one problem, with the "
        "command's defaults; --only chooses the problem, --rows and --seeds make it cheaper. "
        "Tables of the same runs cost nothing after the first with the same --out. Measured: the "
        "problems with figures that hold for this version."
    )
    table = empty_table("Tables", caption)
    table.add_column("table", no_wrap=True)
    for heading in ("contents", "problems and CPU hours"):
        table.add_column(heading)
    for heading in ("seeds", "mea- sured"):
        table.add_column(heading, justify="right")
    for name, needs in tables.items():
        shared: dict[str, list[str]] = {}
        for problem, hours in needs["hours"].items():
            shared.setdefault(number(hours, 2), []).append(problem)
        costs = "; ".join(f"{', '.join(problems)}: {cost}" for cost, problems in shared.items())
        done = len({entry["problem"] for entry in needs["measured"]})
        share = f"{done}/{len(needs['hours'])}" if done else "–"
        table.add_row(name, Text(needs["title"]), Text(costs), str(needs["seeds"]), share)
    return table


def measured_table(tables: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return what has been measured of the tables, with the file of the figures.

    Args:
        tables: As for `needs_table`.
    """
    entries = [entry for needs in tables.values() for entry in needs["measured"]]
    places = sorted({str(PurePosixPath(entry["file"]).parent) for entry in entries})
    caption = f"Figures: files in {', '.join(places)} of the repository." if places else None
    table = empty_table("Measured", caption)
    for heading in ("table", "problem", "measured"):
        table.add_column(heading)
    for entry in entries:
        problem = " ".join(filter(None, (entry["problem"], entry["part"])))
        seeds = f"{entry['seeds']} {'seed' if entry['seeds'] == 1 else 'seeds'}"
        version = f"{entry['version']} ({entry['commit']})"
        about = ", ".join((seeds, entry["protocol"], version))
        about = f"{about}: {PurePosixPath(entry['file']).name}"
        table.add_row(*map(Text, (entry["table"], problem, about)))
    return table
