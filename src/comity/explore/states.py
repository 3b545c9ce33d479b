"""The state of work that may be going on: rounds, bytes, time left, commands."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comity.core.locks import LOCK
from comity.explore.items import Item
from comity.runs.base import CONFIG, HISTORY

_FRESH = 60.0  # seconds between the configuration and the lock of a run that was never interrupted


@dataclass
class Pace:
    """Speed of a run while the page looks on."""

    start: float
    """Time at which it was first seen."""
    done: int
    """Rounds that were done then."""

    def seconds_per_round(self, done: int) -> float | None:
        """Return the mean time of the rounds since; None without any.

        Args:
            done: Rounds that are done now.
        """
        rounds = done - self.done
        return (time.monotonic() - self.start) / rounds if rounds > 0 else None


def pace_of(path: Path, done: int) -> Pace:
    """Return the pace of a run that is seen for the first time.

    Files say when it began, unless it was interrupted before.

    Args:
        path: Its directory.
        done: Rounds that are done.
    """
    try:
        began, made = (path / LOCK).stat().st_mtime, (path / CONFIG).stat().st_mtime
        last = (path / HISTORY).stat().st_mtime
    except OSError:
        return Pace(time.monotonic(), done)
    if abs(began - made) > _FRESH or last <= began:
        return Pace(time.monotonic(), done)
    return Pace(time.monotonic() - (time.time() - began), 0)


def state_of(
    item: Item,
    done: int,
    of: int,
    sent: tuple[int, int],
    seconds: float | None,
    pace: Pace | None = None,
) -> dict[str, Any]:
    """Return the state of an item as JSON.

    Args:
        item: The item.
        done: Rounds or iterations that are done.
        of: Their number in all.
        sent: Bytes to the server and from it.
        seconds: Time that it took, if it is over.
        pace: Its speed, if it is not.
    """
    holder = None if item.finished else item.holder
    word = "finished" if item.finished else "interrupted" if holder is None else "running"
    each = pace.seconds_per_round(done) if pace is not None and word == "running" else None
    return {
        "state": word,
        "done": min(done, of),
        "of": of,
        "seconds": seconds,
        "seconds_left": None if each is None else round(each * max(0, of - done), 1),
        "bytes_up": sent[0],
        "bytes_down": sent[1],
        "holder": holder,
        "resume": f"comity resume {quoted(item.path)}" if word == "interrupted" else None,
    }


def quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))
