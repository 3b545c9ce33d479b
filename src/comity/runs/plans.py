"""What a contact plan allows: known before anything is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from comity.configuration import Configuration, configure, planned, planned_sizes
from comity.errors import UserError
from comity.links.limits import Limit, Spread, limit
from comity.links.settings import HOUR
from comity.links.timetable import Timetable
from comity.runs.link_schema import Ages, UpdateCounts


class PlannedClient(TypedDict):
    """One client of a plan."""

    client: int
    name: str
    updates: int
    passes: int
    """Contacts with the server, either direction."""
    use: float
    """Share of their time that is planned for messages."""
    longest_gap_hours: float
    """Longest time without such a contact."""
    silent: NotRequired[str]
    """Why the client takes part in no round."""


class PlanResults(TypedDict):
    """What ``comity plan --json`` prints."""

    problem: str
    algorithm: str
    encoding: str
    collect: str
    days: float
    update_bytes: int
    delivery_bytes: int
    rounds: int
    updates: int
    updates_per_client: UpdateCounts
    age: Ages
    pass_use: float
    limit: str
    """``bytes`` or ``contacts``."""
    verdict: list[str]
    mixings_hours: list[float]
    clients: list[PlannedClient]


@dataclass(frozen=True)
class Plan:
    """A timetable with what it was made from."""

    configuration: Configuration
    timetable: Timetable
    limit: Limit

    @property
    def results(self) -> PlanResults:
        """All figures of the plan."""
        configuration, table = self.configuration, self.timetable
        assert configuration.links is not None
        up, down = planned_sizes(configuration)
        lags, counts = table.lags, Spread.of(table.updates)
        return {
            "problem": configuration.problem_name,
            "algorithm": configuration.algorithm,
            "encoding": configuration.encoding,
            "collect": configuration.links.collect,
            "days": round(table.plan.days, 6),
            "update_bytes": up,
            "delivery_bytes": down,
            "rounds": len(table.rounds),
            "updates": sum(table.updates),
            "updates_per_client": {
                "least": counts.least,
                "median": counts.median,
                "most": counts.most,
            },
            "age": {"mean": round(sum(lags) / len(lags), 6), "most": max(lags)},
            "pass_use": round(table.use_of_passes, 6),
            "limit": "bytes" if self.limit.bytes else "contacts",
            "verdict": self.sentences,
            "mixings_hours": [planned_round.time / HOUR for planned_round in table.rounds],
            "clients": self._clients(),
        }

    @property
    def sentences(self) -> list[str]:
        """The verdict in words."""
        sentences = [f"{str(self.limit).capitalize()}."]
        for silence in self.timetable.silent:
            name = self.timetable.names[silence.client]
            sentences.append(f"{name} takes part in no round: {silence.reason}.")
        return sentences + self._on_relays()

    def _on_relays(self) -> list[str]:
        """Return a sentence where relays are allowed, but none is used."""
        table, links = self.timetable, self.configuration.links
        assert links is not None
        names = set(table.names)
        if links.relays == "none":
            return []
        pieces = [piece for transfer in table.transfers for piece in transfer.pieces]
        if any({piece.source, piece.target} <= names for piece in pieces):
            return []
        between = [c for c in table.plan.contacts if {c.source, c.target} <= names]
        if not between:
            return ["No relay is used: the plan has no contact from client to client."]
        size = int(max(planned_sizes(self.configuration)) * links.overhead)
        most = max(contact.bytes for contact in between)
        if most < size:
            return [
                f"No relay is used: a message takes {size:,} bytes on the link, and the largest "
                f"contact from client to client carries {most:,}; a relay needs it whole."
            ]
        return ["No relay is used: none is earlier than a client's own contacts."]

    def _clients(self) -> list[PlannedClient]:
        table = self.timetable
        silent = {silence.client: silence.reason for silence in table.silent}
        passes, used = table.passes, Counter[str]()
        for transfer in table.transfers:
            for piece in transfer.pieces:
                for name in {piece.source, piece.target} & set(table.names):
                    used[name] += piece.end - piece.start
        rows: list[PlannedClient] = []
        for client, name in enumerate(table.names):
            mine = [c for c in passes if name in (c.source, c.target)]
            whole = sum(c.end - c.start for c in mine)
            row: PlannedClient = {
                "client": client,
                "name": name,
                "updates": table.updates[client],
                "passes": len({(c.start, c.end, *sorted((c.source, c.target))) for c in mine}),
                "use": round(used[name] / whole, 6) if whole else 0.0,
                "longest_gap_hours": round(_longest_gap(table, name) / HOUR, 3),
            }
            if client in silent:
                row["silent"] = silent[client]
            rows.append(row)
        return rows


def make_plan(values: Mapping[str, Any]) -> Plan:
    """Return what the contact plan of a configuration allows; nothing is trained.

    Args:
        values: Settings as for a run, with a table ``links``.
    """
    if values.get("links") is None:
        raise UserError("links.contacts is missing: name the contact plan, e.g. --links plan.csv.")
    configuration = configure(values)
    assert configuration.links is not None
    table = planned(configuration)
    return Plan(configuration, table, limit(table, configuration.links))


def _longest_gap(table: Timetable, name: str) -> int:
    """Return the longest time without a contact between a client and the server."""
    longest, until = 0, 0
    for contact in table.passes:
        if name in (contact.source, contact.target):
            longest = max(longest, contact.start - until)
            until = max(until, contact.end)
    return max(longest, table.plan.end - until)
