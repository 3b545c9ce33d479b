"""Reproductions about models that take any preference."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from comity.report.captions import reproduction_caption
from comity.report.measures import display_names, mean_and_std, vector
from comity.report.tables.layout import empty_table
from comity.runs.reproduction_schema import PerClientResults, PrintedValue
from comity.runs.schema import Spread

_HEADINGS = {
    "front": "own front",
    "undominated": "undomi- nated",
    "share": "share",
    "width": "width",
    "distance": "distance to (1, 1)",
    "monotony": "follows",
    "monotony_of_losses": "losses follow",
    "distinct": "distinct",
    "loss_front": "front of losses",
    "accuracy_agreement": "accuracy agrees",
    "fairness_agreement": "fairness agrees",
    "first_round": "first round",
    "last_round": "last round",
    "limit": "limit",
    "factor": "factor",
    "explained": "R²",
    "explained_by_inverse": "R² of 1/round",
}
_TITLES = {
    "fronts": "fronts",
    "splits": "split between the phases",
    "responses": "map of preferences",
    "losses": "losses beside metrics",
    "rounds": "convergence",
}
_MEANINGS = {
    "fronts": "Own front: different non-dominated vectors that a client's model reaches. "
    "Undominated: those of them that no other algorithm dominates on the same client and seed.",
    "splits": "Width: distance between the ends of a client's front. Distance to (1, 1): from no "
    "error and no disparity to the nearest vector.",
    "responses": "Follows: rank correlation of an objective with its importance, mean over both. "
    "Distinct: different outcomes per preference.",
    "losses": "Own front: non-dominated vectors in the metrics; front of losses: in the two losses "
    "at the same preferences. Agrees: rank correlation of a metric with its loss, turned round.",
    "rounds": "Validation hypervolume by round, and the nearest curve limit − gap × factor^round, "
    "which is linear convergence; 1/round is a slower one. No hypervolume is above 1: a limit "
    "above it says that rounds are too few for a rate.",
}


def spanned_table(results: PerClientResults) -> Table:
    """Return the table of what a figure of a paper claims, measured."""
    rows, shows = results["rows"], results["shows"]
    models = {"ours": results.get("models", {}).get("ours", "kept")}  # nothing is printed
    caption = (
        f"{_MEANINGS[shows]} Mean over clients ± population standard deviation over seeds. "
        f"{reproduction_caption({'table': results['table'], 'models': models})} "
        f"Reference point: {vector(results['reference_point'])}."
    )
    table = empty_table(f"{results['table']}: {_TITLES[shows]} (no printed figures)", caption)
    across = results["across"]
    first = "partition" if across == "partition" else "problem"
    second = "split" if across == "split" else "algorithm"
    names = display_names(rows)
    several = len(names) > 1
    table.add_column(first, no_wrap=True)
    if several:
        table.add_column(second, no_wrap=second == "split")
    for heading in ("hyper- volume", *(_HEADINGS[name] for name in rows[0]["measures"])):
        table.add_column(heading, justify="right")
    for row in rows:
        about = row.get("partition", "") if across == "partition" else row["problem"]
        name = str(row["split"]) if second == "split" else names[row["algorithm"]]
        values: list[Spread | PrintedValue] = [row["ours"], *row["measures"].values()]
        cells = [mean_and_std(value, 3) for value in values]
        lead = [about.removeprefix("praffl-"), *([name] if several else [])]
        table.add_row(*map(Text, lead), *cells)
    return table
