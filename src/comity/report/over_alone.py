"""Clients beside learning alone, as tables show them."""

from __future__ import annotations

from collections.abc import Sequence

from comity.report.measures import display_names, has_several_preferences, number
from comity.runs.alone_schema import BesideAlone, ClientGain
from comity.runs.schema import ClientResult, ComparisonResults, ComparisonRow
from comity.runs.verdict import TOLERANCE, counted

COMPANION_HEADINGS = ("federated", "alone", "keeps")
"""Headings of a client's federated model beside its companion."""


def companion_cells(beside: BesideAlone) -> list[str]:
    """Return the validation values of a client's two models, and which it keeps."""
    return [number(beside["federated"]), number(beside["alone"]), beside["keeps"]]


def companions_text(clients: Sequence[ClientResult]) -> str:
    """Return the legend of companions; empty where clients have none."""
    if not any("alone" in client for client in clients):
        return ""
    return (
        " Federated, alone: validation of the best federated model and of the best lone companion; "
        "the client keeps the better one."
    )


def over_alone_headings(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return the headings of the table of clients beside learning alone."""
    kind = ["preferences"] if has_several_preferences(rows) else []
    figures = ["validation", "seeds", "test", "95 % interval", "seeds"]
    return ["algorithm", *kind, "client", *figures]


def over_alone_rows(rows: Sequence[ComparisonRow]) -> list[list[str]]:
    """Return one row per entry and client; nothing where clients have no names.

    A client without a name has other preferences, and often other data, under each seed.
    """
    names, cells = display_names(rows), []
    for row in rows:
        kind = [row["preferences"]] if has_several_preferences(rows) else []
        for gains in row.get("over_alone", ()):
            if gains["name"] != str(gains["client"]):
                validation, test = _cells(gains["validation"]), _cells(gains["test"])
                figures = [validation[0], validation[2], *test]
                cells.append([names[row["algorithm"]], *kind, gains["name"], *figures])
    return cells


def over_alone_caption(comparison: ComparisonResults) -> str:
    """Return the caption of the table."""
    seeds = counted(min(len(row["seeds"]) for row in comparison["rows"]), "seed")
    return (
        "Gain of each client's final model over the one that it ends with when it learns alone, "
        f"seed by seed, mean over {seeds}, with Student's 95 % interval on test data. Seeds: in "
        "how many the client is better off/level/worse off than alone (level: within "
        f"{TOLERANCE:g}). The intervals are not corrected for their number."
    )


def _cells(gain: ClientGain | None) -> list[str]:
    """Return mean, interval and seeds; dashes where unknown."""
    if gain is None:
        return ["–", "–", "–"]
    interval, seeds = gain["interval"], gain["seeds"]
    return [
        f"{'+' if gain['mean'] > 0 else ''}{number(gain['mean'], 3)}",
        "–" if interval is None else f"{number(interval[0], 2)} to {number(interval[1], 2)}",
        f"{seeds['better']}/{seeds['level']}/{seeds['worse']}",
    ]
