"""Gains of a comparison's entries over others, seed by seed, as tables show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from comity.report.measures import (
    display_names,
    has_several_preferences,
    has_single_objective,
    number,
)
from comity.runs.alone import is_alone
from comity.runs.differences import ENOUGH_SEEDS
from comity.runs.schema import ComparisonResults, ComparisonRow, Difference
from comity.runs.verdict import TOLERANCE


def gain_headings(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return the headings of the table of gains."""
    kind = ["preferences"] if has_several_preferences(rows) else []
    return ["algorithm", *kind, "over", "gain", "95 % interval", "p", "p (Holm)", "clients"]


def gain_rows(rows: Sequence[ComparisonRow]) -> list[list[str]]:
    """Return one row per entry and other entry that it is compared with."""
    names, cells = display_names(rows), []
    paired = {
        (row["preferences"], row["algorithm"], other)
        for row in rows
        for other in row.get("paired", {})
    }
    order = {row["algorithm"]: place for place, row in enumerate(rows)}
    for row in rows:
        kind = [row["preferences"]] if has_several_preferences(rows) else []
        for other, gain in row.get("paired", {}).items():
            seen = (row["preferences"], other, row["algorithm"]) in paired
            if seen and _later(other, row["algorithm"], order):
                continue  # the same from the other side
            host = " (host)" if other == row.get("host") else ""
            over = names.get(other, other) + host
            cells.append([names[row["algorithm"]], *kind, over, *gain_cells(gain)])
    return cells


def _later(entry: str, other: str, order: Mapping[str, int]) -> bool:
    """Return whether a pair is shown as the gain of ``entry``: not alone, or further down."""
    if is_alone(entry) != is_alone(other):
        return is_alone(other)
    return order[entry] > order[other]


def gain_cells(gain: Difference) -> list[str]:
    """Return mean ± std, interval, both p and numbers of clients; dashes where unknown."""
    sign = "+" if gain["mean"] > 0 else ""
    interval, clients = gain.get("interval"), gain.get("clients")
    return [
        f"{sign}{number(gain['mean'], 3)} ± {number(gain['std'], 2)}",
        "–" if interval is None else f"{number(interval[0], 2)} to {number(interval[1], 2)}",
        _p_text(gain.get("p")),
        _p_text(gain.get("p_holm")),
        "–" if clients is None else f"{clients['better']}/{clients['level']}/{clients['worse']}",
    ]


def gains_caption(comparison: ComparisonResults) -> str:
    """Return the caption of the table of gains."""
    rows = comparison["rows"]
    of = "the objective" if has_single_objective(comparison) else "the mean scalarised value"
    seeds = min(len(row["seeds"]) for row in rows)
    tests = comparison["verdict"]["tests"] if "verdict" in comparison else None
    number_of_tests = {None: "all tests here", 1: "1 test"}.get(tests, f"{tests} tests")
    parts = [
        f"Gain: difference of {of} of the models that clients end with, seed by seed, mean ± "
        "population standard deviation",
        "95 % interval of the mean and p (paired, two-sided): Student's t over seeds",
        f"p (Holm): corrected for {number_of_tests}",
        "Clients: of all seeds, better off/level/worse off than with the other entry (level: "
        f"within {TOLERANCE:g})",
    ]
    if any("host" in row for row in rows):
        parts.append("Host: the same algorithm without the wrapper")
    if seeds < ENOUGH_SEEDS:
        counted = "1 seed is" if seeds == 1 else f"{seeds} seeds are"
        parts.append(f"Attention: {counted} too few to decide on a difference")
    return ". ".join(parts) + "."


def _p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.2g}"
