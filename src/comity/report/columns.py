"""Columns of a comparison beside its measures: how soon a target is reached, what clients send."""

from __future__ import annotations

import math
from collections.abc import Sequence

from comity.report.measures import number
from comity.runs.schema import ComparisonRow

BYTES, EPSILON = "bytes per update", "epsilon"
"""Headings of what clients send."""


def soon_headings(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return the headings of when rows reach the comparison's target; none without one."""
    soon = rows[0].get("how_soon")
    return [f"{kind} to {number(soon['target'])}" for kind in ("rounds", "seconds")] if soon else []


def soon_cells(row: ComparisonRow) -> list[str]:
    """Return the cells under `soon_headings`."""
    soon = row.get("how_soon")
    return [first_text(soon["rounds"]), first_text(soon["seconds"])] if soon else []


def sent_headings(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return the headings of what clients send; none where all rows send about the same."""
    sizes = [size for row in rows if (size := _sent(row, "bytes_per_update"))]
    spent = {_sent(row, "epsilon") for row in rows}
    bytes_differ = sizes and max(sizes) > 1.05 * min(sizes)
    return [*([BYTES] if bytes_differ else []), *([EPSILON] if len(spent) > 1 else [])]


def sent_cells(row: ComparisonRow, headings: Sequence[str]) -> list[str]:
    """Return the cells under `sent_headings`."""
    size, epsilon = _sent(row, "bytes_per_update"), _sent(row, "epsilon")
    cells = {
        BYTES: f"{size:,.0f}" if size else "–",
        EPSILON: "none" if epsilon is None else number(epsilon, 3),
    }
    return [cells[heading] for heading in headings if heading in cells]


def _sent(row: ComparisonRow, name: str) -> float | None:
    spread = row.get("communication", {}).get(name)
    return None if spread is None else spread["mean"]


def first_text(values: Sequence[float | None]) -> str:
    """Return the mean ± std of the seeds that reach a target, and how many do if not all."""
    reached = [value for value in values if value is not None]
    if not reached:
        return "never"
    mean = sum(reached) / len(reached)
    std = math.sqrt(sum((value - mean) ** 2 for value in reached) / len(reached))
    some = "" if len(reached) == len(values) else f" ({len(reached)} of {len(values)})"
    return number(mean, 3) + (f" ± {number(std, 2)}" if std else "") + some
