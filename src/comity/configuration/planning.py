"""Federations over thin links: the contact plan decides the rounds of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from comity.configuration.run import Configuration
from comity.configuration.travel import Travel, message_sizes
from comity.errors import UserError
from comity.links.contacts import ContactPlan, read_plan
from comity.links.settings import Links
from comity.links.timetable import Timetable, timetable
from comity.settings import build

_STEP = 1000
"""Sizes are planned in steps of this many bytes, so that algorithms whose messages differ by a
statistic have one timetable."""
_SHOWN = 3


def with_plan(
    values: Mapping[str, Any], complete: Callable[[Mapping[str, Any]], Configuration]
) -> Configuration:
    """Return the configuration of a federation whose rounds a contact plan decides.

    Args:
        values: The user's values, with a table ``links``.
        complete: Fills in all other values.

    Raises:
        UserError: Plan and values do not fit together, or nobody's update can arrive.
    """
    if "rounds" in values:
        raise UserError(
            f"rounds = {values['rounds']}: with links, the contact plan decides; shorten it with "
            "links.days (--set links.days=1)."
        )
    links = _links(values["links"])
    names = _plan(links).first(links.days).clients(links.server)
    values = {"clients": len(names), **values, "links": links}
    if values["clients"] == len(names):
        values.setdefault("names", list(names))
    first = complete({**values, "rounds": 1, "absences": []})
    travel = Travel(first)
    if travel.delivered != travel.sent:
        raise UserError(
            f"{first.algorithm} sends clients several models to choose from and credits the last "
            "offer with their answer; with links an answer may be to an earlier one. Use an "
            "algorithm that sends one model, e.g. fedavg or fedpref."
        )
    table = planned(first)
    _check_rounds(table)
    learner = first.get_problem().learner
    steps = max(1, first.learner_settings["local_steps"] * max(table.work))
    scheduled = {"total_steps": steps, **values.get(learner, {})}
    return complete({**values, "rounds": len(table.rounds), learner: scheduled})


def planned(configuration: Configuration) -> Timetable:
    """Return the timetable of a configuration with links."""
    assert configuration.links is not None
    return _timetable(configuration.links, configuration.clients, *planned_sizes(configuration))


def planned_sizes(configuration: Configuration) -> tuple[int, int]:
    """Return the bytes of an update and of a delivery that contacts are planned for.

    A federation that sends nothing is planned as if it sent what FedAvg does: the same timetable of
    local work makes it the line to beat.
    """
    if not configuration.get_algorithm().communicates:
        alike = {"algorithm": "fedavg", "algorithm_settings": {}}
        configuration = configuration.model_copy(update=alike)
    up, down = message_sizes(configuration)
    return -(-up // _STEP) * _STEP, -(-down // _STEP) * _STEP


def contact_plan(links: Links) -> ContactPlan:
    """Return the contact plan that a configuration was made with.

    Raises:
        UserError: The file is missing, or has changed.
    """
    plan = _plan(links)
    if links.sha256 and plan.sha256 != links.sha256:
        raise UserError(
            f"links.contacts = {links.contacts} has changed since this configuration was made: "
            f"its SHA-256 is {plan.sha256[:12]}…, not {links.sha256[:12]}…. Name the plan that was "
            "used (a run keeps it as contacts.csv), or leave out links.sha256."
        )
    return plan


def _links(table: Any) -> Links:
    """Return the settings of links, with the hash of the plan."""
    if isinstance(table, str):
        table = {"contacts": table}
    if isinstance(table, Links):
        table = table.model_dump()
    if not isinstance(table, Mapping):
        raise UserError(f"links = {table!r}: must be a table of settings, or a contact plan.")
    if not table.get("contacts"):
        raise UserError("links.contacts is missing: name the contact plan, a CSV file.")
    links = build(Links, table, where="links")
    path = str(Path(links.contacts).resolve())
    links = links.model_copy(update={"contacts": path})
    return links.model_copy(update={"sha256": contact_plan(links).sha256})


def _plan(links: Links) -> ContactPlan:
    return read_plan(links.contacts)


@lru_cache(maxsize=16)
def _timetable(links: Links, clients: int, up: int, down: int) -> Timetable:
    return timetable(contact_plan(links), links, clients, up, down)


def _check_rounds(table: Timetable) -> None:
    if table.rounds:
        return
    reasons = "; ".join(f"{table.names[s.client]}: {s.reason}" for s in table.silent[:_SHOWN])
    more = len(table.silent) - _SHOWN
    raise UserError(
        f"links: the contact plan has no round. {reasons}{f'; and {more} more' if more > 0 else ''}"
        ". Send less (encoding = int8), wait for fewer (links.collect), or plan more days."
    )
