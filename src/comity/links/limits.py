"""What limits the updates of a timetable: bytes or contacts; and how unequal clients are."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from comity.links.settings import Links
from comity.links.timetable import Timetable, timetable

BYTES_MATTER = 1.25
"""Bytes are called the limit where messages of no size would give this many times the updates."""


@dataclass(frozen=True)
class Spread:
    """Least, median and largest of some counts."""

    least: int
    median: float
    most: int

    @staticmethod
    def of(counts: tuple[int, ...]) -> Spread:
        return Spread(min(counts), float(median(counts)), max(counts))


@dataclass(frozen=True)
class Limit:
    """What limits the updates, by comparison with messages of no size."""

    bytes: bool
    """Bytes are the limit; else contacts are."""
    updates: int
    """Updates of all clients."""
    free_updates: int
    """The same with messages of no size."""

    def __str__(self) -> str:
        what = "bytes are the limit" if self.bytes else "contacts are the limit"
        if self.updates == self.free_updates:
            return f"{what}: messages of no size would give the same {self.updates} updates"
        return (
            f"{what}: messages of no size would give {self.free_updates} updates instead of "
            f"{self.updates}"
        )


def limit(table: Timetable, links: Links) -> Limit:
    """Return what limits the updates of a timetable.

    Args:
        table: The timetable.
        links: The settings that it was made with.
    """
    free = timetable(table.plan, links, len(table.names), 0, 0)
    updates, free_updates = sum(table.updates), sum(free.updates)
    return Limit(free_updates >= BYTES_MATTER * updates, updates, free_updates)
