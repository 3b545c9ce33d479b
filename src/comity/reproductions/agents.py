"""Agents of pFedRLLA that a campaign trains first, in its own directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comity.errors import UserError
from comity.runs.base import CONFIG
from comity.runs.directory import Run
from comity.runs.events import Notify
from comity.runs.execute import execute
from comity.runs.pretraining import configure_pretraining, save_agent, start_pretraining


def trained_agent(file: Path, values: Mapping[str, Any], notify: Notify | None) -> str:
    """Return the whole path of an agent's file; train the agent first, or go on, if it is missing.

    The run in which the agent learns has the name of the file without its ending.

    Args:
        file: The file.
        values: Settings of the run in which the agent learns.
        notify: Called with each event.
    """
    place = file.with_suffix("")
    if (place / CONFIG).is_file():
        run = Run.open(place)
        if run.configuration != configure_pretraining(values):
            raise UserError(
                f"out: {place} holds an agent that was trained with other settings. Choose another "
                "directory."
            )
    else:
        run = start_pretraining(values, place)
    if not run.finished:
        execute(run, notify=notify)
    if not file.is_file():
        save_agent(Run.open(place), file)
    return str(file.absolute())
