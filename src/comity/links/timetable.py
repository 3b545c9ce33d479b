"""From a contact plan and the sizes of messages to rounds, before anything is trained.

A client gets a model, works, sends its update and waits for the mixing of that update; the next
model it gets was mixed after it. So nobody is in a round twice, nobody trains twice from one model,
and nobody takes without giving. The timetable is a pure function: no seed, no training, no clock.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import IntEnum

from comity.errors import UserError
from comity.links.booking import Piece, Radios, Route
from comity.links.contacts import Contact, ContactPlan
from comity.links.settings import HOUR, SECOND, Collection, Links, collection, duration

MOST_WORK = 5
"""Rounds' work that a client does at most before it sends, with ``waiting = train``."""
MOST_NAMES = 12
"""Names that are listed in a message."""


@dataclass(frozen=True)
class PlannedRound:
    """One mixing; the tuples have one entry per sender."""

    time: int
    """Milliseconds from the beginning of the plan."""
    senders: tuple[int, ...]
    """Clients whose updates are mixed, in order of their numbers."""
    versions: tuple[int, ...]
    """Mixings that the model contained which the sender started from; 0: the first model."""
    work: tuple[int, ...]
    """Rounds' work in the update."""


@dataclass(frozen=True)
class Transfer:
    """A booked message between a client and the server."""

    client: int
    up: bool
    """The client's update, or a model for it."""
    ready: int
    pieces: tuple[Piece, ...]

    @property
    def arrival(self) -> int:
        """Time at which the message has arrived as a whole."""
        return self.pieces[-1].end


@dataclass(frozen=True)
class Delivery:
    """A model that a client received."""

    version: int
    """Mixings that it contains."""
    arrival: int


@dataclass(frozen=True)
class Silence:
    """A client that is in no round, and why."""

    client: int
    reason: str
    """A sentence with the bytes of the message and the volume of the client's contacts."""


@dataclass(frozen=True)
class Timetable:
    """What a federation can do with a contact plan."""

    plan: ContactPlan
    names: tuple[str, ...]
    """Names of the clients, by their numbers."""
    rounds: tuple[PlannedRound, ...]
    transfers: tuple[Transfer, ...]
    """All booked messages, in the order of booking."""
    deliveries: tuple[tuple[Delivery, ...], ...]
    """Per client, the models that it received."""
    last: tuple[int | None, ...]
    """Per client, the version that it has received since its last update, when the plan ends; None:
    no further model reached it."""
    silent: tuple[Silence, ...]
    """Clients that are in no round."""

    @property
    def updates(self) -> tuple[int, ...]:
        """Updates of each client that were mixed."""
        senders = [client for planned in self.rounds for client in planned.senders]
        return tuple(senders.count(client) for client in range(len(self.names)))

    @property
    def work(self) -> tuple[int, ...]:
        """Rounds' work of each client in all its updates."""
        totals = [0] * len(self.names)
        for planned in self.rounds:
            for client, work in zip(planned.senders, planned.work, strict=True):
                totals[client] += work
        return tuple(totals)

    @property
    def lags(self) -> tuple[int, ...]:
        """Mixings that each update missed, in order of rounds and senders."""
        return tuple(
            number - version
            for number, planned in enumerate(self.rounds)
            for version in planned.versions
        )

    @property
    def hands(self) -> frozenset[str]:
        """Nodes of the server."""
        return frozenset(self.plan.nodes) - frozenset(self.names)

    @property
    def passes(self) -> tuple[Contact, ...]:
        """Contacts between clients and the server."""
        hands = self.hands
        return tuple(
            contact
            for contact in self.plan.contacts
            if (contact.source in hands) != (contact.target in hands)
        )

    @property
    def use_of_passes(self) -> float:
        """Share of the time of all passes that is booked."""
        hands = self.hands
        pieces = [piece for transfer in self.transfers for piece in transfer.pieces]
        ground = [piece for piece in pieces if (piece.source in hands) != (piece.target in hands)]
        whole = sum(contact.end - contact.start for contact in self.passes)
        return sum(piece.end - piece.start for piece in ground) / whole if whole else 0.0

    @property
    def sending_seconds(self) -> float:
        """Time that transmitters of clients are on, relays included."""
        names = frozenset(self.names)
        pieces = (piece for transfer in self.transfers for piece in transfer.pieces)
        return sum(piece.end - piece.start for piece in pieces if piece.source in names) / SECOND


def timetable(
    plan: ContactPlan, links: Links, clients: int, up_bytes: int, down_bytes: int
) -> Timetable:
    """Return the rounds that a contact plan allows.

    Args:
        plan: The contact plan; only its first ``links.days`` days count.
        links: Settings of the links.
        clients: Number of clients; the plan must have as many.
        up_bytes: Largest size of an update.
        down_bytes: Largest size of a model for a client.

    Raises:
        UserError: Plan and settings do not fit together.
    """
    plan = plan.first(links.days)
    names = check_clients(plan, links, clients)
    rule = collection_rule(links, clients)
    return _Clock(plan, links, names, rule, (up_bytes, down_bytes)).run()


def collection_rule(links: Links, clients: int) -> Collection:
    """Return when the server mixes; refuse a rule that waits for more clients than there are."""
    try:
        return collection(links.collect, clients)
    except ValueError as error:
        raise UserError(f"links.collect = {error}.") from None


def check_clients(plan: ContactPlan, links: Links, clients: int) -> tuple[str, ...]:
    """Return the names of the clients; refuse a plan with another number of them."""
    names = plan.clients(links.server)
    if len(names) == len(plan.nodes):
        raise UserError(
            f"links.server = {links.server!r} matches none of the plan's nodes: "
            f"{_listed(plan.nodes)}."
        )
    if len(names) != clients:
        raise UserError(
            f"clients = {clients}, but the contact plan has {len(names)} beside the server's nodes "
            f"({links.server}): {_listed(names)}."
        )
    return names


class _Event(IntEnum):
    """Kinds of events; of events at one time, the smaller kind comes first."""

    ARRIVED = 0
    """An update has arrived at the server."""
    DUE = 1
    """The time of the collection rule is up."""
    LOADED = 2
    """A model leaves the server for a client."""
    RECEIVED = 3
    """A client has received its model, and begins to work."""
    DONE = 4
    """A client has done its work, and can send."""


class _Clock:
    """The event queue of one timetable; events at one time in order of kind and client."""

    def __init__(
        self,
        plan: ContactPlan,
        links: Links,
        names: tuple[str, ...],
        rule: Collection,
        sizes: tuple[int, int],
    ) -> None:
        self.plan, self.links, self.names, self.rule = plan, links, names, rule
        self.up_bytes, self.down_bytes = sizes
        self.radios = Radios(plan, links)
        self.work_time = duration(links.work)
        self.queue: list[tuple[int, _Event, int]] = []
        self.waiting: list[int] = []
        """Clients whose updates have arrived and are not mixed."""
        self.deadline: int | None = None
        self.version = [0] * len(names)
        self.work = [1] * len(names)
        self.received: list[int | None] = [None] * len(names)
        self.rounds: list[PlannedRound] = []
        self.transfers: list[Transfer] = []
        self.deliveries: list[list[Delivery]] = [[] for _ in names]
        self.obstacles: dict[int, str] = {}

    def run(self) -> Timetable:
        """Return the timetable."""
        for client in range(len(self.names)):
            if self.links.start == "loaded":
                self._push(self.work_time, _Event.DONE, client)
            else:
                self._deliver(0, client)
        if self.rule.count is None:
            self._set_deadline(0)
        while self.queue:
            time, event, client = heapq.heappop(self.queue)
            if event is _Event.ARRIVED:
                self._arrive(time, client)
            elif event is _Event.DUE:
                self._due(time)
            elif event is _Event.LOADED:
                self.version[client] = len(self.rounds)
            elif event is _Event.RECEIVED:
                self.received[client] = self.version[client]
                self.deliveries[client].append(Delivery(self.version[client], time))
                self._push(time + self.work_time, _Event.DONE, client)
            else:
                self._send(time, client)
        last = tuple(self._last(client) for client in range(len(self.names)))
        return Timetable(
            self.plan,
            self.names,
            tuple(self.rounds),
            tuple(self.transfers),
            tuple(tuple(received) for received in self.deliveries),
            last,
            self._silences(),
        )

    def _push(self, time: int, event: _Event, client: int = -1) -> None:
        heapq.heappush(self.queue, (time, event, client))

    def _book(self, client: int, up: bool, ready: int) -> Route | None:
        """Book the earliest route of a client's next message, if there is one."""
        if up:
            route = self.radios.to_server(self.names[client], ready, self.up_bytes)
        else:
            route = self.radios.to_client(self.names[client], ready, self.down_bytes)
        if route is not None:
            self.radios.book(route)
            self.transfers.append(Transfer(client, up, ready, route.pieces))
        return route

    def _deliver(self, time: int, client: int) -> None:
        route = self._book(client, False, time)
        if route is None:
            self.obstacles[client] = self._too_large(client, False, time)
            return
        self._push(route.start, _Event.LOADED, client)
        self._push(route.arrival, _Event.RECEIVED, client)

    def _send(self, time: int, client: int) -> None:
        route = self._book(client, True, time)
        if route is None:
            self.obstacles[client] = self._too_large(client, True, time)
            return
        if self.links.waiting == "train":
            more = (route.start - time) // self.work_time
            self.work[client] = min(MOST_WORK, 1 + more)
        self._push(route.arrival, _Event.ARRIVED, client)

    def _arrive(self, time: int, client: int) -> None:
        self.waiting.append(client)
        if self.rule.count is None:
            return
        if len(self.waiting) >= self.rule.count:
            self._mix(time)
        elif len(self.waiting) == 1 and self.rule.patience is not None:
            self._set_deadline(time)

    def _set_deadline(self, time: int) -> None:
        """Set when the rule's patience ends; at the end of the plan, as nothing can follow."""
        assert self.rule.patience is not None
        self.deadline = max(time, min(time + self.rule.patience, self.plan.end))
        self._push(self.deadline, _Event.DUE)

    def _due(self, time: int) -> None:
        if time != self.deadline:  # mixed meanwhile
            return
        if self.waiting:
            self._mix(time)
        if self.rule.count is None and time < self.plan.end:
            self._set_deadline(time)

    def _mix(self, time: int) -> None:
        senders, self.waiting, self.deadline = sorted(self.waiting), [], None
        versions = tuple(self.version[client] for client in senders)
        work = tuple(self.work[client] for client in senders)
        self.rounds.append(PlannedRound(time, tuple(senders), versions, work))
        for client in senders:
            self.received[client], self.work[client] = None, 1
            self._deliver(time, client)

    def _last(self, client: int) -> int | None:
        """Return the last version that reaches a client: the newest, if a contact is left."""
        newest = len(self.rounds)
        if newest and self.received[client] != newest:
            ready = self.rounds[-1].time
            if self.deliveries[client]:
                ready = max(ready, self.deliveries[client][-1].arrival)
            route = self._book(client, False, ready)
            if route is not None:
                self.deliveries[client].append(Delivery(newest, route.arrival))
                return newest
        return self.received[client]

    def _silences(self) -> tuple[Silence, ...]:
        active = {client for planned in self.rounds for client in planned.senders}
        late = f"its update arrives, but links.collect = {self.links.collect} mixes it never"
        return tuple(
            Silence(client, self.obstacles.get(client, late))
            for client in range(len(self.names))
            if client not in active
        )

    def _too_large(self, client: int, up: bool, ready: int) -> str:
        """Return the sentence about a message that the contacts which are left cannot carry."""
        name = self.names[client]
        contacts = self.radios.up[name] if up else self.radios.down[name]
        left = [contact for contact in contacts if contact.end > ready]
        volume = sum(contact.bytes for contact in left)
        message = "update" if up else "first model"
        size = self.radios.bits(self.up_bytes if up else self.down_bytes) // 8
        return (
            f"its {message} takes {size:,} bytes on the link; its {len(left)} contacts "
            f"{'to' if up else 'from'} the server after hour {ready / HOUR:.1f} carry "
            f"{volume:,} bytes at most, those of others included"
        )


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:MOST_NAMES]) or "none"
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"
