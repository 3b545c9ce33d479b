"""Tables for the terminal."""

from __future__ import annotations

from comity.report.tables.attacks import attack_tables
from comity.report.tables.charter import agreement_table, session_tables
from comity.report.tables.comparisons import comparison_tables, gains_table, over_alone_table
from comity.report.tables.cross import cross_tables
from comity.report.tables.deployment import (
    audit_table,
    check_table,
    federation_table,
    rehearsal_table,
)
from comity.report.tables.groups import groups_table, measured_groups_table
from comity.report.tables.layout import fit
from comity.report.tables.plans import plan_table, planned_clients_table
from comity.report.tables.reproductions import (
    measured_table,
    needs_table,
    reproduction_table,
    search_reproduction_table,
)
from comity.report.tables.runs import clients_table, run_table
from comity.report.tables.searches import points_table, search_table, searches_table
from comity.report.tables.tunings import trials_table, tunings_table

__all__ = [
    "agreement_table",
    "attack_tables",
    "audit_table",
    "check_table",
    "clients_table",
    "comparison_tables",
    "cross_tables",
    "federation_table",
    "fit",
    "gains_table",
    "groups_table",
    "measured_groups_table",
    "measured_table",
    "needs_table",
    "over_alone_table",
    "plan_table",
    "planned_clients_table",
    "points_table",
    "rehearsal_table",
    "reproduction_table",
    "run_table",
    "search_reproduction_table",
    "search_table",
    "searches_table",
    "session_tables",
    "trials_table",
    "tunings_table",
]
