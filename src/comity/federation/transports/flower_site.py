"""A site's end of the transport on Flower: a SuperNode beside the site."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from comity.errors import RefusedError
from comity.federation.transports.flower_app.comity_pumps import frames
from comity.federation.transports.flower_programs import (
    HOST,
    FlowerPrograms,
    free_port,
    gone,
    listen,
    reachable,
)

_PAUSE = 5.0
"""Seconds between two tries to start them again."""
_STALLED = 60.0
"""Seconds until a pump that does not read counts as lost."""
_REFUSED = "[code: 2004]"
"""Flower's mark of a node that it does not let in."""
_FAREWELL = 60.0
"""Seconds that a SuperNode has for the last answer, unless its server is gone before."""
_FORGOTTEN = 180.0
"""Seconds after which Flower has forgotten an earlier connection of a node for certain. It refuses
a node that it believes to be connected with the same words as one that it does not know."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SiteSecurity:
    """TLS to the server, and the key that the SuperNode is known by."""

    authority: Path
    """Certificate (PEM) that the server's is checked against."""
    key: Path
    """Private key (OpenSSH format, a NIST curve, no passphrase)."""


class FlowerSiteTransport:
    """A site's end: starts a SuperNode, and again whenever it is lost.

    Args:
        site: Name of the site.
        server: Address of the SuperLink, or of the proxy in front of it: ``host:port``.
        directory: Directory of its own for Flower's files, logs and the socket.
        security: TLS and the site's key, as the server has it.
        programs: Directory of Flower's programs; by default that of ``make flower``.
    """

    def __init__(
        self,
        site: str,
        server: str,
        directory: Path,
        security: SiteSecurity | None = None,
        programs: Path | None = None,
    ) -> None:
        self._site = site
        self._server = server
        self._security = security
        self._flower = FlowerPrograms(directory, programs)
        self._socket = self._flower.directory / "site.sock"
        self._listener = listen(self._socket)
        self._closed = threading.Event()
        self._refused = False
        self._thread: threading.Thread | None = None

    def serve(self, answer: Callable[[bytes], bytes], ended: Callable[[], bool]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="flower", daemon=True)
            self._thread.start()
        while not ended():
            if self._refused:
                raise RefusedError(
                    f"the server at {self._server} does not let in site '{self._site}': its key is "
                    "not the registered one, or another `comity join` of this site is running"
                )
            self._answer_one(answer)
        until = time.monotonic() + _FAREWELL  # the SuperNode has yet to bring the last answer
        while time.monotonic() < until and reachable(self._server):
            self._answer_one(answer)

    def _answer_one(self, answer: Callable[[bytes], bytes]) -> None:
        with suppress(TimeoutError), self._accepted() as connection:
            frame = frames.receive(connection)
            if frame is not None and not gone(connection):
                frames.send(connection, {"kind": "answer"}, answer(frame[1]))

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        self._listener.close()
        self._socket.unlink(missing_ok=True)

    @contextmanager
    def _accepted(self) -> Iterator[socket.socket]:
        """Open the next connection of a pump; faults of a connection end it and nothing else."""
        connection, _ = self._listener.accept()
        with connection, suppress(OSError, frames.FrameError):
            connection.settimeout(_STALLED)
            yield connection

    def _watch(self) -> None:
        """Keep the SuperNode running."""
        refused_since: float | None = None
        while not self._closed.is_set() and not self._refused:
            before = self._flower.log.stat().st_size if self._flower.log.exists() else 0
            address = f"{HOST}:{free_port()}"
            group = self._flower.start(self._command(address), address, ["--insecure"])
            try:
                while not self._closed.is_set() and not group.ended(wait=0.5):
                    pass
            finally:
                group.end()
            if self._closed.is_set():
                return
            now = time.monotonic()
            refused = _REFUSED.encode() in self._flower.log.read_bytes()[before:]
            refused_since = (refused_since or now) if refused else None
            self._refused = refused_since is not None and now - refused_since > _FORGOTTEN
            _log.warning("the SuperNode is lost and is started again; see %s", self._flower.log)
            self._closed.wait(_PAUSE)

    def _command(self, address: str) -> Sequence[str]:
        """Return the command of the SuperNode, with its own address for its processes."""
        host, port = address.split(":")
        node = f"site={json.dumps(self._site)} socket={json.dumps(str(self._socket))}"
        command = ["flower-supernode", "--superlink", self._server, "--node-config", node]
        command += ["--host", host, "--port", port]
        if self._security is None:
            return [*command, "--insecure"]
        command += ["--root-certificates", str(self._security.authority)]
        return [*command, "--auth-supernode-private-key", str(self._security.key)]
