"""Tiny contact plans: one ground station unless named, times in seconds, 8,000 bit/s."""

from __future__ import annotations

from comity.links.contacts import Contact, ContactPlan
from comity.links.settings import Links

RATE = 8_000
"""Bits per second: 1,000 bytes per second."""


def row(source: str, target: str, start: float, end: float, rate: int = RATE) -> Contact:
    return Contact(round(start * 1000), round(end * 1000), source, target, rate)


def passes(client: str, *spans: tuple[float, float], station: str = "ground/g") -> list[Contact]:
    """Return both directions of some passes."""
    pairs = [(client, station), (station, client)]
    return [row(*pair, start, end) for pair in pairs for start, end in spans]


def plan(*contacts: list[Contact] | Contact) -> ContactPlan:
    rows = [c for item in contacts for c in (item if isinstance(item, list) else [item])]
    return ContactPlan.of(rows)


def links(**values: object) -> Links:
    base: dict[str, object] = {"contacts": "contacts.csv", "overhead": 1.0, "work": "60s"}
    return Links(**{**base, **values})  # type: ignore[arg-type]


def always(clients: int, days: float = 1.0) -> ContactPlan:
    """Return a plan in which everybody is in contact all the time, fast."""
    names = [f"sat/{client:02d}" for client in range(clients)]
    pairs = [pair for name in names for pair in ((name, "ground/g"), ("ground/g", name))]
    return plan([row(*pair, 0, days * 86_400, 10**9) for pair in pairs])
