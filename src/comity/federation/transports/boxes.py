"""The messages that a server holds for its sites until they are fetched and answered.

For transports whose sites only dial out: whatever listens for the sites calls `Boxes.fetch` and
`Boxes.bring`, in threads of its own.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Condition
from typing import NamedTuple

from comity.federation.transports.base import Arrived

DIGEST_BYTES = 32
HOLD = 20.0
"""Seconds that a site's call is held while there is no message."""
_LATELY = 3 * HOLD
_FORMER = 100  # sessions of a site that are remembered as ended


class SupersededError(Exception):
    """A later session of the same site has called."""


class _Brought(NamedTuple):
    """An answer on its way to the thread that exchanges, and the verdict on its way back."""

    site: str
    answer: bytes
    taken: Future[bool]


_Answers = SimpleQueue[_Brought | None]  # None: closed


class _Box:
    """Box of one site: holds a message until its answer is taken or it is withdrawn."""

    def __init__(self, site: str) -> None:
        self.heard = -float("inf")
        self._site = site
        self._changed = Condition()
        self._message = b""  # with its digest before it
        self._answers: _Answers | None = None
        self._session = b""
        self._former: deque[bytes] = deque(maxlen=_FORMER)
        self._fetches = 0
        self._bringing = False
        self._closed = False

    def put(self, message: bytes, answers: _Answers) -> None:
        with self._changed:
            self._message = hashlib.sha256(message).digest() + message
            self._answers = answers
            self._changed.notify_all()

    def withdraw(self) -> None:
        with self._changed:
            self._message, self._answers = b"", None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def fetch(self, session: bytes) -> bytes:
        with self._changed:
            self._enter(session)
            self._fetches += 1
            number = self._fetches
            self._changed.notify_all()  # an earlier call of this site ends
            self._changed.wait_for(
                lambda: self._message or self._closed or self._fetches != number, HOLD
            )
            self._enter(session)
            return self._message if self._fetches == number else b""

    def bring(self, session: bytes, digest: bytes, answer: bytes) -> bool:
        with self._changed:
            self._enter(session)
            if self._answers is None or self._bringing or self._message[:DIGEST_BYTES] != digest:
                return False
            brought = _Brought(self._site, answer, Future())
            self._bringing = True
            self._answers.put(brought)
        try:
            return brought.taken.result()
        finally:
            with self._changed:
                self._bringing = False

    def _enter(self, session: bytes) -> None:
        """Note that the site was heard from; a new session ends the one before for good."""
        if session in self._former:
            raise SupersededError
        if session != self._session:
            self._former.append(self._session)
            self._session = session
        self.heard = time.monotonic()


class Boxes:
    """One box per site. One thread exchanges; the sites' calls come in other threads.

    Args:
        sites: Names of the sites.
    """

    def __init__(self, sites: Iterable[str]) -> None:
        self._boxes = {site: _Box(site) for site in sites}
        self._answers: _Answers = SimpleQueue()

    def online(self) -> frozenset[str]:
        """Return the sites that called in the last minute. A site at work does not call."""
        since = time.monotonic() - _LATELY
        return frozenset(site for site, box in self._boxes.items() if box.heard > since)

    def exchange(
        self, messages: Mapping[str, bytes], patience: float, arrived: Arrived
    ) -> frozenset[str]:
        """Hold one message per site until it is answered; see `ServerTransport.exchange`."""
        deadline = time.monotonic() + patience
        answers: _Answers = SimpleQueue()
        self._answers = answers
        missing = set(messages)
        try:
            for site, message in messages.items():
                self._boxes[site].put(message, answers)
            while missing and (left := deadline - time.monotonic()) > 0:
                try:
                    brought = answers.get(timeout=min(left, HOLD))
                except Empty:
                    continue
                if brought is None:
                    break
                taken = False
                try:
                    taken = arrived(brought.site, brought.answer)
                    if taken:
                        missing.discard(brought.site)
                        self._boxes[brought.site].withdraw()
                finally:
                    brought.taken.set_result(taken)
        finally:
            for site in missing:
                self._boxes[site].withdraw()
            while not answers.empty():  # too late
                if brought := answers.get():
                    brought.taken.set_result(False)
        return frozenset(messages) - missing

    def fetch(self, site: str, session: bytes) -> bytes:
        """Return the digest of a site's message and the message, as soon as there is one.

        Returns nothing after `HOLD` seconds without a message, and if the site calls again before.

        Args:
            site: The site that calls.
            session: Chosen at random by each start of a site.

        Raises:
            SupersededError: another session of the site has called after this one's first call.
        """
        return self._boxes[site].fetch(session)

    def bring(self, site: str, session: bytes, digest: bytes, answer: bytes) -> bool:
        """Hand over a site's answer and return whether it was taken.

        Args:
            site: The site that calls.
            session: As for `fetch`.
            digest: SHA-256 of the message that is answered.
            answer: The answer.

        Raises:
            SupersededError: another session of the site has called after this one's first call.
        """
        return self._boxes[site].bring(session, digest, answer)

    def close(self) -> None:
        """End all calls and the exchange."""
        for box in self._boxes.values():
            box.close()
        self._answers.put(None)
