"""Tables of searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from comity.report.measures import best, folded, graded, number, scaled, vector
from comity.report.tables.layout import (
    add_measures,
    add_yardsticks,
    baselines,
    blank,
    measure_cell,
    measured,
    over_seeds,
    preference_text,
)


def points_table(results: Mapping[str, Any]) -> Table:
    """The front that a search found: its points, and where each comes from."""
    points = results["front"]
    caption = (
        f"Iterations and rounds count from 1, candidates from 0. Models: {points[0]['model']}, …"
    )
    table = blank("Front", caption)
    table.add_column("point", justify="right")
    for name in points[0]["objectives"]:
        table.add_column(Text(name), justify="right", style="bold")
    table.add_column("trained for")
    for heading in ("iteration", "candidate", "round"):
        table.add_column(heading, justify="right")
    for point in points:
        table.add_row(
            str(point["point"]),
            *(number(value) for value in point["objectives"].values()),
            preference_text(point["weight"]),
            *origin_of(point),
        )
    return table


def origin_of(point: Mapping[str, Any]) -> list[str]:
    """Iteration, candidate and round that a point of a front comes from."""
    round = point["round"]
    return [
        str(point["iteration"]),
        str(point["candidate"]),
        "end" if round is None else str(round),
    ]


def search_table(results: Mapping[str, Any]) -> Table:
    """A search's measures beside its control, the trivial policy and the optimum."""
    title = f"{results['generator']} search on {results['problem']}, seed {results['seed']}"
    return measured(blank(title, search_caption(results)), searched(results))


def searched(results: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Measures of what a search and its control found, and the yardsticks."""
    control = {"control": results["control"]["metrics"]} if "control" in results else {}
    return {"found": results["metrics"], **control, **baselines(results)}


def search_caption(results: Mapping[str, Any]) -> str:
    """What a search's measures rest on."""
    reference = vector(results["reference_point"])
    parts = [f"On test episodes. Reference point of the hypervolume: {reference}."]
    if cut := results["cut_by_reference_point"]:
        verbs = ("does", "counts") if cut == 1 else ("do", "count")
        parts.append(
            f"Attention: {cut} of the points found {verbs[0]} not lie above it and {verbs[1]} "
            "nothing for the hypervolume."
        )
    parts.append(f"Found with {_cost(results)}.")
    if "control" in results:
        parts.append(f"Control: random weights, {_cost(results['control'])}.")
    return " ".join(parts)


def _cost(results: Mapping[str, Any]) -> str:
    steps = sum(results["environment_steps"].values())
    return f"{results['candidates']} candidates and {steps:,} environment steps"


def searches_table(results: Mapping[str, Any]) -> Table:
    """Searches side by side, one row each: mean ± std over seeds, and what it cost."""
    measures, rows = graded(results["rows"], [50])
    table = blank(f"Searches on {results['problem']}", searches_caption(results))
    table.add_column("search", no_wrap=True)
    add_measures(table, measures)
    for heading in ("candi- dates", "steps"):
        table.add_column(heading, justify="right", min_width=6)
    marks = {measure.name: best(rows, measure) for measure in measures}
    for place, row in enumerate(rows):
        cells = [measure_cell(row, measure, marks[measure.name][place]) for measure in measures]
        steps = scaled(row["environment_steps"], ("", "k", "M", "G"))
        table.add_row(Text(folded(row["search"])), *cells, number(row["candidates"]), steps)
    add_yardsticks(table, results, measures, "–", "–")
    return table


def searches_caption(comparison: Mapping[str, Any]) -> str:
    return (
        f"{over_seeds(comparison)}; the best is marked ★. Hypervolume after a part of the "
        "iterations is on the server's evaluation, all else on test episodes. Steps are those of "
        "all clients and the server in the environment. "
        f"Reference point of the hypervolume: {vector(comparison['reference_point'])}"
    )
