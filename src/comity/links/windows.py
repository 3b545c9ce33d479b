"""Who hears whom, without a server: windows of equal length, contacts from client to client."""

from __future__ import annotations

from dataclasses import dataclass

from comity.errors import UserError
from comity.links.booking import Radios
from comity.links.contacts import ContactPlan
from comity.links.settings import Links, duration
from comity.links.timetable import Transfer, collection_rule


@dataclass(frozen=True)
class Window:
    """One mixing of every client with what it heard since the one before."""

    time: int
    """Its end, in milliseconds from the beginning of the plan."""
    heard: tuple[frozenset[int], ...]
    """Per client, the clients whose message has arrived whole within the window."""
    transfers: tuple[Transfer, ...]
    """The booked messages, by sender."""


def heard(plan: ContactPlan, links: Links, clients: int, size: int) -> tuple[Window, ...]:
    """Return who hears whom in each window of ``links.collect = every:DURATION``.

    At the beginning of a window every client works, then it sends its message to each client that
    it is in contact with. A client serves one partner at a time, first come; a message may take
    several contacts of one window. Windows in which nobody hears anybody are left out.

    Args:
        plan: The contact plan, with rows from client to client; rows of the server's nodes
            (``links.server``) are ignored.
        links: Settings of the links.
        clients: Number of clients; the plan must have as many.
        size: Largest size of a message in bytes.

    Raises:
        UserError: Plan and settings do not fit together.
    """
    plan = plan.first(links.days)
    names = plan.clients(links.server)
    if len(names) != clients:
        raise UserError(f"clients = {clients}, but the contact plan has {len(names)} clients.")
    rule = collection_rule(links, clients)
    if rule.count is not None or rule.patience is None:
        raise UserError(
            f"links.collect = {links.collect!r}: without a server, clients mix by the clock. Use "
            "every:DURATION, e.g. every:6h."
        )
    work = duration(links.work)
    if work >= rule.patience:
        raise UserError(
            f"links.work = {links.work!r} leaves no time to send before the next mixing "
            f"(links.collect = {links.collect!r})."
        )
    radios = Radios(plan, links)
    if not radios.sideways:
        raise UserError(
            "the contact plan has no contact from client to client: neighbours hear nobody. Make "
            "one with: comity contacts … --between."
        )
    starts = range(0, plan.end, rule.patience)
    windows = (
        _window(radios, names, (start + work, start + rule.patience), size) for start in starts
    )
    return tuple(window for window in windows if window.transfers)


def _window(radios: Radios, names: tuple[str, ...], span: tuple[int, int], size: int) -> Window:
    """Return one window; pairs are served in the order in which their contacts begin."""
    ready, end = span
    number = {name: client for client, name in enumerate(names)}
    first = {}
    for pair, contacts in radios.sideways.items():
        begin = [max(c.start, ready) for c in contacts if c.end > ready and c.start < end]
        if begin:
            first[pair] = begin[0]
    sources: list[set[int]] = [set() for _ in names]
    transfers = []
    for source, target in sorted(first, key=lambda pair: (first[pair], pair)):
        route = radios.direct(radios.sideways[source, target], ready, size, end)
        if route is not None:
            radios.book(route)
            sources[number[target]].add(number[source])
            transfers.append(Transfer(number[source], True, ready, route.pieces))
    return Window(end, tuple(frozenset(each) for each in sources), tuple(transfers))
