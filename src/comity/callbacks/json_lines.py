"""Events as lines of JSON in one file, which anything can read."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from comity.callbacks.base import Callback
from comity.core.storage import append
from comity.errors import UserError
from comity.runs.events import EndEvent, Event, RoundEvent, StartEvent


class JsonLines(Callback):
    """Append one line per event to a file.

    A line has the fields of the event, and ``event``: start, round or end.

    Args:
        path: The file; lines are added to one that exists.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        try:
            append(self._path, b"")
        except OSError as error:
            raise UserError(f"log: cannot write {path}: {error.strerror}.") from None

    def on_start(self, event: StartEvent) -> None:
        self._write("start", event)

    def on_round(self, event: RoundEvent) -> None:
        self._write("round", event)

    def on_end(self, event: EndEvent) -> None:
        self._write("end", event)

    def _write(self, name: str, event: Event) -> None:
        line = json.dumps({"event": name, **asdict(event)})
        append(self._path, f"{line}\n".encode())
