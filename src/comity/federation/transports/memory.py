"""Transport in memory, for tests: sites answer inside the server's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from comity.federation.transports.base import Arrived

Site = Callable[[bytes], bytes | None]
"""Maps a message to the answer that reaches the server; None: the message or its answer is lost."""


class MemoryTransport:
    """The server's end of a transport to sites in this process.

    Args:
        sites: The sites by name.
    """

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = dict(sites)

    def online(self) -> frozenset[str]:
        return frozenset(self._sites)

    def exchange(
        self, messages: Mapping[str, bytes], patience: float, arrived: Arrived
    ) -> frozenset[str]:
        taken = set()
        for site, message in messages.items():
            answer = self._sites[site](message) if site in self._sites else None
            if answer is not None and arrived(site, answer):
                taken.add(site)
        return frozenset(taken)

    def close(self) -> None:
        pass
