"""Booked time on radios: what is left of contacts, and the pieces that a message takes of it.

A node of the server serves ``antennas`` partners at once, a client one; the two directions between
two nodes do not disturb each other. What is booked is gone for others.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from comity.links.contacts import Contact, ContactPlan
from comity.links.settings import SECOND, Links

FOREVER = 1 << 62


@dataclass(frozen=True)
class Piece:
    """A part of a contact that is booked for a message."""

    source: str
    target: str
    start: int
    """Milliseconds from the beginning of the plan."""
    end: int


@dataclass(frozen=True)
class Route:
    """The pieces that carry one message, in order of time."""

    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        """Time at which the message must be ready."""
        return self.pieces[0].start

    @property
    def arrival(self) -> int:
        """Time at which the message is there as a whole."""
        return self.pieces[-1].end


class Radios:
    """All contacts of a plan, indexed by their nodes, and what is booked of them.

    Args:
        plan: The contact plan.
        links: Settings: which nodes are the server's, antennas, relays, overhead.
    """

    def __init__(self, plan: ContactPlan, links: Links) -> None:
        self.plan, self.links = plan, links
        self.clients = plan.clients(links.server)
        self.up: dict[str, list[Contact]] = {name: [] for name in self.clients}
        """Contacts from each client to the server."""
        self.down: dict[str, list[Contact]] = {name: [] for name in self.clients}
        """Contacts from the server to each client."""
        self.sideways: dict[tuple[str, str], list[Contact]] = defaultdict(list)
        """Contacts from one client to another."""
        for contact in plan.contacts:
            if contact.source not in self.up:
                if contact.target in self.up:
                    self.down[contact.target].append(contact)
            elif contact.target in self.up:
                self.sideways[contact.source, contact.target].append(contact)
            else:
                self.up[contact.source].append(contact)
        self._longest = max((c.end - c.start for c in plan.contacts), default=0)
        self._busy: dict[str, list[tuple[int, int, str, bool]]] = defaultdict(list)
        """Per node: start, end, partner, whether the node sends."""
        self._most = {
            name: links.antennas if fnmatchcase(name, links.server) else 1 for name in plan.nodes
        }

    def bits(self, size: int) -> int:
        """Return the bits on the link of a message of some bytes."""
        return math.ceil(size * 8 * self.links.overhead)

    def to_server(self, client: str, ready: int, size: int) -> Route | None:
        """Return the earliest route of a message from a client to the server, or None.

        Args:
            client: Name of the client.
            ready: Time from which the message can be sent.
            size: Bytes of the message.
        """
        best = self.direct(self.up[client], ready, size)
        for relay in self._relays(client):
            hops = self.sideways[client, relay], self.up[relay]
            best = self._earlier(best, hops, ready, size)
        return best

    def to_client(self, client: str, ready: int, size: int) -> Route | None:
        """Return the earliest route of a message from the server to a client, or None."""
        best = self.direct(self.down[client], ready, size)
        for relay in self._relays(client):
            hops = self.down[relay], self.sideways[relay, client]
            best = self._earlier(best, hops, ready, size)
        return best

    def direct(
        self, contacts: Sequence[Contact], ready: int, size: int, until: int = FOREVER
    ) -> Route | None:
        """Return the pieces of a message over several contacts if need be, or None.

        Args:
            contacts: The contacts that may carry it, in order of time.
            ready: Time from which the message can be sent.
            size: Bytes of the message.
            until: Time by which it must have arrived.
        """
        left = self.bits(size) * SECOND  # bit/s times milliseconds: whole numbers throughout
        pieces: list[Piece] = []
        for contact in self._from(contacts, ready):
            for start, end in self._free(contact, ready):
                needed = -(-left // contact.rate)
                if start + min(end - start, needed) > until:
                    return None
                stop = min(end, start + needed)
                pieces.append(Piece(contact.source, contact.target, start, stop))
                left -= (stop - start) * contact.rate
                ready = stop
                if left <= 0:
                    return Route(tuple(pieces))
        return None

    def book(self, route: Route) -> None:
        """Take the pieces of a route from what is left."""
        for piece in route.pieces:
            if piece.start == piece.end:  # a message of no size
                continue
            insort(self._busy[piece.source], (piece.start, piece.end, piece.target, True))
            insort(self._busy[piece.target], (piece.start, piece.end, piece.source, False))

    def _relays(self, client: str) -> Iterator[str]:
        """Yield the clients that may carry messages of a client."""
        if self.links.relays == "none":
            return
        for relay in self.clients:
            same = relay.partition("/")[0] == client.partition("/")[0]
            if relay != client and (same or self.links.relays == "any"):
                yield relay

    def _earlier(
        self,
        best: Route | None,
        hops: tuple[Sequence[Contact], Sequence[Contact]],
        ready: int,
        size: int,
    ) -> Route | None:
        """Return the earlier of a route and the best one over two hops."""
        for contact in self._from(hops[0], ready):
            if best is not None and contact.start >= best.arrival:
                break
            first = self.direct([contact], ready, size)
            if first is None:
                continue
            for later in self._from(hops[1], first.arrival):
                if best is not None and later.start >= best.arrival:
                    break
                second = self.direct([later], first.arrival, size)
                if second is not None:
                    if best is None or second.arrival < best.arrival:
                        best = Route(first.pieces + second.pieces)
                    break
        return best

    @staticmethod
    def _from(contacts: Sequence[Contact], ready: int) -> Iterator[Contact]:
        """Yield the contacts that are not over at a time."""
        return (contact for contact in contacts if contact.end > ready)

    def _free(self, contact: Contact, ready: int) -> Iterator[tuple[int, int]]:
        """Yield the times of a contact, from a time on, at which both nodes can serve it."""
        start, end = max(contact.start, ready), contact.end
        taken = self._taken(contact.source, contact.target, True, start, end)
        taken += self._taken(contact.target, contact.source, False, start, end)
        for busy_start, busy_end in sorted(taken):
            if busy_start > start:
                yield start, busy_start
            start = max(start, busy_end)
        if start < end:
            yield start, end

    def _taken(
        self, node: str, partner: str, sends: bool, start: int, end: int
    ) -> list[tuple[int, int]]:
        """Return the times at which a node cannot serve a partner: busy with it, or with others."""
        busy = self._busy[node]
        begin = bisect_left(busy, (start - self._longest,))
        near = [b for b in busy[begin : bisect_left(busy, (end,))] if b[1] > start]
        taken = [(b[0], b[1]) for b in near if b[2] == partner and b[3] == sends]
        others = [b for b in near if b[2] != partner]
        if self._most[node] == 1:
            return taken + [(b[0], b[1]) for b in others]
        times = sorted({time for b in others for time in b[:2]})
        for left, right in pairwise(times):
            partners = {b[2] for b in others if b[0] <= left and b[1] >= right}
            if len(partners) >= self._most[node]:
                taken.append((left, right))
        return taken
