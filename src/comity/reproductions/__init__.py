"""Printed tables beside our own figures: `comity reproduce thesis-4.1`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from comity.errors import UserError, unknown
from comity.reproductions import (
    clusterings,
    fairness,
    federations,
    pictures,
    praffl,
    ranges,
    searches,
    two_tasks,
)
from comity.reproductions.campaign import Campaign, Reproduction, execute_campaign
from comity.reproductions.printed import Measured, Needs, read_measured
from comity.runs.cluster import Workers
from comity.runs.events import Notify

_MODULES = (searches, federations, clusterings, two_tasks, fairness, ranges, praffl, pictures)
TABLES: dict[str, Callable[..., Campaign[Any]]] = {
    table: module.plan for module in _MODULES for table in module.TABLES
}
"""The function that plans the campaign behind each printed table."""


def catalogue() -> dict[str, Needs]:
    """Return contents and cost of each table that can be reproduced, by name."""
    return {table: module.needs(table) for module in _MODULES for table in module.TABLES}


def measured() -> dict[str, list[Measured]]:
    """Return what has been measured of each table, by name."""
    known: dict[str, list[Measured]] = {table: [] for table in TABLES}
    for entry in read_measured():
        known[entry.table].append(entry)
    return known


def reproduce(
    table: str,
    *,
    out: str | Path | None = None,
    workers: Workers = 1,
    notify: Notify | None = None,
    **options: Any,
) -> Reproduction:
    """Run a printed table and put our figures beside the printed ones, without drawing.

    Args:
        table: Name of the table, e.g. ``thesis-4.1``.
        out: Directory, in which finished runs are used again; None: a new one under ``runs/``.
        workers: Processes that share the runs or searches, or a cluster.
        notify: Called with each event.
        **options: Arguments of the table's plan (``only``, ``seeds``, ``rows``, …) and settings of
            its runs or searches.
    """
    if table not in TABLES:
        raise unknown("table", table, TABLES)
    for name in ("problem", "algorithms", "generators"):
        if name in options:
            raise UserError(f"{name}: {table} has its own; leave it out.")
    campaign = TABLES[table](table, **options)
    return execute_campaign(table, campaign, out=out, workers=workers, notify=notify)


__all__ = [
    "TABLES",
    "Campaign",
    "Measured",
    "Needs",
    "Reproduction",
    "catalogue",
    "measured",
    "reproduce",
]
