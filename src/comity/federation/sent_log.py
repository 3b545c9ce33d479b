"""The log of everything that left a site: one line per message, appended, each with the hash of
the line before, so that a line that was changed or removed shows."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from comity.core.encodings import Layout
from comity.core.envelope import MODELS, STATISTICS
from comity.core.storage import strip_prefix
from comity.errors import UserError
from comity.federation.wire import contents, digest_of, round_of

SENT = "sent.jsonl"
_DAY = 24 * 3600.0


class SentLog:
    """The log of a site.

    Args:
        directory: The site's directory.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / SENT
        self._last: str | None = None  # hash of the last line, once it is known

    def append(self, exchange: str, sealed: bytes, agreed: Layout) -> None:
        """Add a message before it leaves; the line is on the disk when this returns.

        Args:
            exchange: What the message answers.
            sealed: The message.
            agreed: Layout of models that both sides know.
        """
        shapes = contents(sealed, agreed)
        entry = {
            "time": round(time.time(), 3),
            "round": round_of(sealed),
            "exchange": exchange,
            "tensors": strip_prefix(shapes, MODELS),
            "statistics": strip_prefix(shapes, STATISTICS),
            "bytes": len(sealed),
            "sha256": digest_of(sealed),
            "previous": self._last_hash(),
        }
        line = json.dumps(entry)
        with self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._last = _hash(line)

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries.

        Raises:
            UserError: a line was changed, removed or cut.
        """
        previous, entries = "", []
        for number, line in enumerate(self._lines(), 1):
            try:
                entry = json.loads(line)
                intact = entry["previous"] == previous
            except (ValueError, KeyError, TypeError):
                intact = False
            if not intact:
                raise UserError(
                    f"{self.path}: line {number} does not follow from the one before: the log was "
                    "changed."
                )
            entries.append(entry)
            previous = _hash(line)
        return entries

    def last_day(self) -> tuple[set[int], int]:
        """Return the rounds answered and the bytes sent in the last 24 hours."""
        recent = [entry for entry in self.entries() if entry["time"] > time.time() - _DAY]
        rounds = {entry["round"] for entry in recent if entry["exchange"] == "round"}
        return rounds, sum(entry["bytes"] for entry in recent)

    def mend(self) -> None:
        """Remove a line that a crash cut short; whole lines stay as they are."""
        if self.path.is_file() and not (content := self.path.read_bytes()).endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)

    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.is_file() else []

    def _last_hash(self) -> str:
        if self._last is None:
            lines = self._lines()
            self._last = _hash(lines[-1]) if lines else ""
        return self._last


def _hash(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()
