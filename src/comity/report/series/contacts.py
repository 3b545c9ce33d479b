"""Contacts over time: passes, messages and mixings in hours, also as blocks of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from comity.links.settings import HOUR
from comity.links.timetable import Timetable

Spans = tuple[tuple[float, float], ...]
"""Beginnings and ends in hours."""

PASS, MOVED, MIXING = "░", "█", "▼"
"""Blocks of the text: in contact; messages moved; a mixing."""


@dataclass(frozen=True)
class ContactRow:
    """One client's line."""

    name: str
    passes: Spans
    """Times in contact with the server."""
    up: Spans
    """Times in which updates were sent, own ones and those carried for others."""
    down: Spans
    """Times in which models were received, likewise."""


@dataclass(frozen=True)
class ContactChart:
    """All clients over the length of a plan."""

    rows: tuple[ContactRow, ...]
    mixings: tuple[float, ...]
    hours: float


def contact_chart(table: Timetable) -> ContactChart:
    """Return the contacts, messages and mixings of a timetable.

    Args:
        table: The timetable.
    """
    rows = []
    for name in table.names:
        sets: dict[str, set[tuple[float, float]]] = {"passes": set(), "up": set(), "down": set()}
        for contact in table.passes:
            if name in (contact.source, contact.target):
                sets["passes"].add((contact.start / HOUR, contact.end / HOUR))
        for transfer in table.transfers:
            for piece in transfer.pieces:
                if name in (piece.source, piece.target):
                    span = piece.start / HOUR, piece.end / HOUR
                    sets["up" if transfer.up else "down"].add(span)
        spans = {kind: tuple(sorted(times)) for kind, times in sets.items()}
        rows.append(ContactRow(name, **spans))
    mixings = tuple(planned.time / HOUR for planned in table.rounds)
    return ContactChart(tuple(rows), mixings, table.plan.end / HOUR)


def text_chart(chart: ContactChart, width: int) -> list[str]:
    """Return the chart as lines of text: one per client, mixings above, hours below.

    Args:
        chart: The chart.
        width: Characters in a line.
    """
    margin = max(len("mixings"), *(len(row.name) for row in chart.rows)) + 1
    columns = max(12, width - margin)
    mixings = _blocks([(time, time) for time in chart.mixings], chart.hours, columns)
    lines = ["mixings".ljust(margin) + "".join(MIXING if mark else " " for mark in mixings)]
    for row in chart.rows:
        passes = _blocks(row.passes, chart.hours, columns)
        moved = _blocks((*row.up, *row.down), chart.hours, columns)
        blocks = (
            MOVED if used else PASS if seen else " "
            for used, seen in zip(moved, passes, strict=True)
        )
        lines.append(row.name.ljust(margin) + "".join(blocks))
    lines.append(" " * margin + _axis(chart.hours, columns))
    return [line.rstrip() for line in lines]


def _blocks(spans: Sequence[tuple[float, float]], hours: float, columns: int) -> list[bool]:
    """Return which columns of a line some spans touch."""
    marks = [False] * columns
    for start, end in spans:
        first = min(columns - 1, int(start / hours * columns))
        last = min(columns - 1, int(end / hours * columns))
        marks[first : last + 1] = [True] * (last + 1 - first)
    return marks


def _axis(hours: float, columns: int) -> str:
    """Return hours below the columns: 0 h at the left, the length at the right."""
    left, right = "0 h", f"{hours:.0f} h"
    middle = f"{hours / 2:.0f} h"
    gap = columns - len(left) - len(middle) - len(right)
    return left + " " * (gap // 2) + middle + " " * (gap - gap // 2) + right
