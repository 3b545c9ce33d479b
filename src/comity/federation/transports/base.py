"""The interface of all transports.

A transport moves sealed messages (bytes, see `comity.federation.wire`) and never looks into them.
Sites only dial out: a site asks for its next message and brings the answer. A message stays with
the server until it is answered or withdrawn, so a site that crashed gets it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

Arrived = Callable[[str, bytes], bool]
"""Called with a site and its answer; returns whether the answer is taken. A refused answer leaves
the message where it is, and the site may answer again."""


class ServerTransport(Protocol):
    """The server's end of a transport."""

    def online(self) -> frozenset[str]:
        """Return the sites that have been heard from lately."""

    def exchange(
        self, messages: Mapping[str, bytes], patience: float, arrived: Arrived
    ) -> frozenset[str]:
        """Deliver one message per site; return the sites whose answers were taken in time.

        Returns as soon as all answers are taken. Messages that are not answered then are
        withdrawn. ``arrived`` is called in the calling thread, one answer at a time, in the order
        of arrival.

        Args:
            messages: Sealed messages by site.
            patience: Seconds until sites that have not answered count as absent.
            arrived: Takes each answer.
        """

    def close(self) -> None:
        """End the transport: stop listening, end processes it started."""


class SiteTransport(Protocol):
    """A site's end of a transport."""

    def serve(self, answer: Callable[[bytes], bytes], ended: Callable[[], bool]) -> None:
        """Fetch messages and bring back their answers until ``ended`` returns true.

        Waits and dials again while the server cannot be reached. An answer that could not be
        brought is brought again, or made again from the same message, which gives the same bytes.

        Args:
            answer: Maps a message to its answer; never raises.
            ended: Asked between messages.

        Raises:
            RefusedError: the server refuses this site (unknown certificate, other federation).
        """

    def close(self) -> None:
        """End the transport."""
