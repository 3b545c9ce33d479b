"""The contact plan: who can send to whom, when, and how fast. CSV in and out."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from comity.errors import Faults, UserError
from comity.links.settings import DAY, SECOND

COLUMNS = ("from", "to", "start", "end", "rate")


@dataclass(frozen=True, order=True)
class Contact:
    """A time during which one node can send to another."""

    start: int
    """Milliseconds from the beginning of the plan."""
    end: int
    source: str
    target: str
    rate: int
    """Bits per second."""

    @property
    def bytes(self) -> int:
        """Volume of the whole contact in bytes."""
        return (self.end - self.start) * self.rate // (8 * SECOND)


@dataclass(frozen=True)
class ContactPlan:
    """Contacts in their canonical order: by start, end and names."""

    contacts: tuple[Contact, ...]

    @staticmethod
    def of(contacts: Iterable[Contact]) -> ContactPlan:
        """Return the plan of some contacts, in whatever order they are."""
        return ContactPlan(tuple(sorted(contacts)))

    @cached_property
    def end(self) -> int:
        """End of the last contact."""
        return max((contact.end for contact in self.contacts), default=0)

    @property
    def days(self) -> float:
        """Length of the plan in days."""
        return self.end / DAY

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, sorted."""
        return tuple(sorted({name for c in self.contacts for name in (c.source, c.target)}))

    def clients(self, server: str) -> tuple[str, ...]:
        """Return the names of the clients, sorted; the place of a name is the client's number.

        Args:
            server: Pattern of the nodes that are the server's, e.g. ``ground/*``.
        """
        return tuple(name for name in self.nodes if not fnmatchcase(name, server))

    def first(self, days: float) -> ContactPlan:
        """Return the first days of the plan; a contact that goes on is cut. 0: all of it."""
        end = round(days * DAY)
        if not end:
            return self
        kept = (c for c in self.contacts if c.start < end)
        return ContactPlan.of(
            Contact(c.start, min(c.end, end), c.source, c.target, c.rate) for c in kept
        )

    def to_csv(self) -> str:
        """Return the file, with times in seconds; equal plans give equal text."""
        lines = [",".join(COLUMNS)]
        lines += [
            f"{c.source},{c.target},{_seconds(c.start)},{_seconds(c.end)},{c.rate}"
            for c in self.contacts
        ]
        return "\n".join(lines) + "\n"

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file in its canonical order."""
        return hashlib.sha256(self.to_csv().encode()).hexdigest()


def read_plan(path: str | Path) -> ContactPlan:
    """Return the contact plan in a CSV file.

    Columns ``from,to,start,end,rate``, in any order; one direction per row; times all in seconds
    from the beginning of the plan, or all in ISO-8601 (UTC unless they name a zone), where the plan
    begins with its first contact; rate in bit/s.

    Args:
        path: The file.

    Raises:
        UserError: It cannot be read, or rows are wrong: all faults, with their lines.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"contact plan {path} cannot be read: {reason}.") from None
    return parse_plan(text, str(path))


def parse_plan(text: str, where: str) -> ContactPlan:
    """Return the contact plan in the text of a CSV file.

    Args:
        text: The content; see `read_plan`.
        where: Name of the file for messages.
    """
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(reader, [])]
    if sorted(header) != sorted(COLUMNS):
        raise UserError(
            f"{where}: line 1 has the columns {', '.join(header) or 'none'}; a contact plan has "
            f"{', '.join(COLUMNS)}."
        )
    faults, rows = Faults(where), []
    kinds: dict[bool, int] = {}
    for cells in reader:
        line = reader.line_num
        if not any(cell.strip() for cell in cells):
            continue
        with faults.gathered():
            row, is_date = _row(header, cells, line)
            other = kinds.get(not is_date)
            if other is not None:
                raise UserError(
                    f"line {line}: times must be all seconds or all ISO-8601, unlike line {other}."
                )
            kinds.setdefault(is_date, line)
            rows.append((row, line))
    _check_overlaps(rows, faults)
    faults.refuse()
    if not rows:
        raise UserError(f"{where}: the contact plan has no contact.")
    zero = min(row.start for row, _ in rows) if True in kinds else 0
    return ContactPlan.of(
        Contact(c.start - zero, c.end - zero, c.source, c.target, c.rate) for c, _ in rows
    )


def _row(header: list[str], cells: list[str], line: int) -> tuple[Contact, bool]:
    """Return the contact of one row, and whether its times are dates."""
    if len(cells) != len(header):
        raise UserError(f"line {line}: {len(cells)} cells; the header has {len(header)}.")
    values = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    source, target = values["from"], values["to"]
    if not source or not target or source == target:
        raise UserError(f"line {line}: from and to must name two nodes.")
    (start, is_date), (end, end_is_date) = (_time(values[n], n, line) for n in ("start", "end"))
    if is_date != end_is_date:
        raise UserError(f"line {line}: start and end must be both seconds or both ISO-8601.")
    if not is_date and start < 0:
        raise UserError(f"line {line}: start = {values['start']} is before 0, where plans begin.")
    if end <= start:
        raise UserError(f"line {line}: end = {values['end']} must be after start.")
    try:
        rate = int(values["rate"])
    except ValueError:
        rate = 0
    if rate <= 0:
        raise UserError(
            f"line {line}: rate = {values['rate']!r} must be a whole number of bit/s above 0."
        )
    return Contact(start, end, source, target, rate), is_date


def _time(text: str, column: str, line: int) -> tuple[int, bool]:
    """Return a time in milliseconds, and whether it is a date."""
    try:
        return round(float(text) * SECOND), False
    except (ValueError, OverflowError):
        pass
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"line {line}: {column} = {text!r} is neither seconds nor a date like "
            "2026-03-01T12:00:00Z."
        ) from None
    date = date.replace(tzinfo=UTC) if date.tzinfo is None else date
    return round((date - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)), True


def _check_overlaps(rows: list[tuple[Contact, int]], faults: Faults) -> None:
    """Note rows of one pair that overlap in time."""
    latest: dict[tuple[str, str], tuple[int, int]] = {}
    for contact, line in sorted(rows):
        pair = contact.source, contact.target
        end, other = latest.get(pair, (contact.start, 0))
        if contact.start < end:
            faults.texts.append(
                f"line {line}: this contact from {pair[0]} to {pair[1]} overlaps that of line "
                f"{other}."
            )
        latest[pair] = max((contact.end, line), latest.get(pair, (0, 0)))


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // SECOND}.{milliseconds % SECOND:03d}"
