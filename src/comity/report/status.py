"""The live status of a deployed federation: in the terminal, as JSON, and as a page."""

from __future__ import annotations

import html
import json
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from comity.core.storage import write_whole
from comity.runs.serve import STATUS, Status

PAGE = "status.html"
_EVERY = 1.0  # seconds between writes
_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: right; padding: .3rem .8rem; border-bottom: 1px solid #8884 }
th:first-child, td:first-child, td:last-child, th:last-child { text-align: left }
.fault { color: #c33 }
"""


class LiveStatus:
    """Shows the status of a federation wherever somebody may look.

    Args:
        directory: The run directory, for ``status.json`` and ``status.html``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        console = Console(stderr=True)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._last: Status | None = None
        self._said: list[str] = []
        self._changed, self._over = threading.Event(), threading.Event()
        self._writer = threading.Thread(target=self._write_often, name="status", daemon=True)

    def __enter__(self) -> Self:
        self._writer.start()
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        self._over.set()
        self._changed.set()
        self._writer.join()

    def show(self, status: Status) -> None:
        """Show a status; it is in the files a second later.

        Args:
            status: The status.
        """
        self._last = status
        if self._live is not None:
            self._live.update(status_table(status), refresh=True)
        else:
            self._say(_last_event(status))
            self._say(f"{status.round} of {status.rounds} rounds" if status.round else "")
        self._changed.set()

    def _say(self, line: str) -> None:
        """Print a line for a log file, unless it was just printed."""
        if line and line not in self._said:
            self._said = [*self._said, line][-2:]
            print(line, file=sys.stderr, flush=True)

    def _write_often(self) -> None:
        """Write the status after every change, at most once per second, and once at the end."""
        while self._changed.is_set() or not self._over.is_set():
            self._changed.wait()
            self._over.wait(_EVERY)
            self._changed.clear()
            if self._last is not None and self._directory.is_dir():
                self._write(self._last)

    def _write(self, status: Status) -> None:
        text = json.dumps(asdict(status), indent=2) + "\n"
        write_whole(self._directory / STATUS, text.encode())
        write_whole(self._directory / PAGE, status_page(status).encode())


def status_table(status: Status) -> Table:
    """Return the status as a table for the terminal."""
    caption = Text(_last_event(status))  # of a site, perhaps: no markup
    table = Table(title=f"{status.algorithm}: {_progress(status)}", caption=caption)
    table.add_column("site", no_wrap=True)
    for heading in ("rounds", "bytes", "seconds", "last seen"):
        table.add_column(heading, justify="right")
    table.add_column("fault")
    for name, *cells in _rows(status):
        table.add_row(Text(name), *(Text(cell) for cell in cells))
    return table


def status_page(status: Status) -> str:
    """Return the status as a page that loads itself again every five seconds."""
    headings = ("site", "rounds", "bytes", "seconds", "last seen", "fault")
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(status)
    )
    events = "".join(f"<li>{html.escape(event)}</li>" for event in reversed(status.events))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta http-equiv="refresh" content="5">'
        f"<title>{html.escape(status.algorithm)}: {_progress(status)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(status.algorithm)}</h1>"
        f"<p>{_progress(status)}. Federation {status.federation[:12]}. "
        f"Updated {_clock(status.updated)} UTC.</p>"
        f"<table><tr>{head}</tr>{body}</table>"
        + (f'<h2>Events</h2><ul class="fault">{events}</ul>' if events else "")
        + "</html>\n"
    )


def _rows(status: Status) -> list[list[str]]:
    return [
        [
            name,
            f"{site.answered}",
            f"{site.bytes:,}",
            f"{site.seconds:.1f}",
            "never" if site.last_seen is None else _clock(site.last_seen),
            site.fault,
        ]
        for name, site in status.sites.items()
    ]


def _progress(status: Status) -> str:
    return f"{status.round} of {status.rounds} rounds, {status.exchange}"


def _last_event(status: Status) -> str:
    return status.events[-1] if status.events else ""


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))
