"""Reproductions of what papers show as pictures or ranges: clusters, fronts, two tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from rich.table import Table
from rich.text import Text

from comity.report.captions import model_heading, reproduction_caption
from comity.report.measures import mean_and_std, number, vector
from comity.report.tables.layout import empty_table, entry_text
from comity.runs.reproduction_schema import (
    ClusterResults,
    Range,
    RangeResults,
    Ranges,
    TwoTaskResults,
)


def clusters_table(results: ClusterResults) -> Table:
    """Return clusters at the rounds that the thesis shows and at the end, over seeds."""
    rows = results["rows"]
    groups = any("adjusted_rand" in row["rounds"][0] for row in rows)
    shown = sorted({number for row in rows for number in row["shown"]})
    texts = ["Clusters: seed by seed"]
    if groups:
        texts.append(
            "Rand index: of the clusters against groups of equal preferences, adjusted for chance "
            "(1: the same), mean ± population std over seeds"
        )
    caption = ". ".join([*texts, reproduction_caption(results)])
    table = empty_table(f"{results['table']}: clusters on {results['problem']}", caption)
    table.add_column("preferences", no_wrap=True)
    table.add_column("algorithm")
    if groups:
        table.add_column("clusters at the end", justify="right")
        headings = [f"Rand index, round {number}" for number in shown]
    else:
        headings = [f"clusters, round {number}" for number in shown]
    for heading in headings:
        table.add_column(heading, justify="right")
    if not groups:
        table.add_column("sizes at the end")
    for row in rows:
        rounds = {entry["round"]: entry for entry in row["rounds"]}
        counts = {
            number: ", ".join(str(len(sizes)) for sizes in entry["sizes"])
            for number, entry in rounds.items()
        }
        last = row["rounds"][-1]
        cells = []
        if groups:
            values = [rounds[number]["adjusted_rand"] for number in shown]
            cells += [counts[last["round"]], *map(_index_text, values)]
        else:
            ends = "; ".join(sizes_text(sizes) for sizes in last["sizes"])
            cells += [*(counts[number] for number in shown), ends]
        table.add_row(Text(row["preferences"]), entry_text(row["algorithm"]), *map(Text, cells))
    return table


def _index_text(values: Sequence[float]) -> str:
    """Return the mean over seeds of a Rand index, with its spread where there are several."""
    mean = f"{np.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.2f}"


def sizes_text(sizes: Sequence[int]) -> str:
    """Return sizes of clusters as text; three and more equal ones are counted: ``9 + 4 + 7 x 1``.

    Args:
        sizes: Sizes, equal ones side by side.
    """
    parts = []
    for size, equal in groupby(sizes):
        count = len(list(equal))
        parts += [f"{count} x {size}"] if count > 2 else [str(size)] * count
    return " + ".join(parts)


def ranges_table(results: RangeResults) -> Table:
    """Return printed ranges of the objectives on fronts beside ours."""
    title = f"{results['table']}: ranges on the front, {results['problem']}"
    caption = f"Constant: the classifier that gives one answer. {reproduction_caption(results)}"
    table = empty_table(title, caption)
    table.add_column("algorithm", no_wrap=True)
    table.add_column("objective", no_wrap=True)
    for column in ("printed", "paper_protocol", "our_defaults"):
        table.add_column(model_heading(results, column), justify="right")
    table.add_column("constant", justify="right")
    for row in results["rows"]:
        for place, objective in enumerate(row["printed"]):
            columns = (row["printed"], row["paper_protocol"], row["our_defaults"])
            table.add_row(
                Text("" if place else row["algorithm"]),
                objective,
                *(_on_front(ranges, objective) for ranges in columns),
                number(1.0 if place else row["trivial"], 3),
            )
    return table


def two_tasks_table(results: TwoTaskResults) -> Table:
    """Return the range of accuracies over clients' weights, federated and alone."""
    caption = (
        "Ranges of the mean over repetitions, by the client's weight on the left digit. "
        "Hypervolume: mean ± population std over repetitions, from "
        f"{vector(results['reference_point'])}. "
        f"Models: of the last round. {reproduction_caption(results)}"
    )
    table = empty_table(f"{results['table']}: two clients on {results['problem']}", caption)
    table.add_column("algorithm", no_wrap=True)
    headings = ("left accuracy, all weights", "weights 0.1 to 0.9", "hypervolume", "repetitions")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(
            row["algorithm"],
            _range(row["left"]),
            _range(row["left_inner"]),
            mean_and_std(row["hypervolume"]),
            str(len(row["seeds"])),
        )
    return table


def _on_front(ranges: Ranges | None, objective: str) -> str:
    return "–" if ranges is None else _range(ranges[objective])


def _range(ends: Range) -> str:
    return f"{ends[0]:.3f}–{ends[1]:.3f}"
