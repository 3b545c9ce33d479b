"""What a contact plan allows, with its picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comity.problems import Problem, named
from comity.runs.plans import Plan, make_plan


def plan(
    problem: str | Problem | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    **settings: Any,
) -> Plan:
    """Return what a contact plan allows, before anything is trained.

    ``comity.plan("deep-sea-treasure", links={"contacts": "contacts.csv"}, encoding="int8")``

    Args:
        problem: What is learned, as for `run`.
        out: A file for the picture of contacts and mixings: png, pdf or svg.
        **settings: Settings of `run`, with the table ``links``.
    """
    made = make_plan({"problem": named(problem), **settings})
    if out is not None:
        from comity.report import writing

        writing.draw_plan(Path(out), made.timetable)
    return made
