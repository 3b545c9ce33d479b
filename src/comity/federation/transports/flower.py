"""Transport on Flower: a SuperLink beside the server, a SuperNode beside each site.

This is the server's end; `flower_site` is a site's.

Flower's processes run in an environment of their own and carry sealed messages (see `flower_app`).
This module starts them, starts them again when they are lost, and talks to them by Unix sockets.
"""

from __future__ import annotations

import itertools
import json
import logging
import queue
import select
import socket
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from comity.errors import UserError
from comity.federation.transports.base import Arrived
from comity.federation.transports.flower_app.comity_pumps import frames
from comity.federation.transports.flower_programs import (
    HOST,
    FlowerPrograms,
    free_port,
    listen,
)
from comity.federation.transports.processes import Group

_APP = Path(__file__).with_name("flower_app")
_START = 180.0
"""Seconds for Flower's processes to start."""
_PAUSE = 5.0
"""Seconds between two tries to start them again."""
_STALLED = 60.0
"""Seconds until a pump that does not read counts as lost."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerSecurity:
    """TLS on the server's SuperLink, and the only SuperNodes that are let in."""

    certificate: Path
    """Certificate for 127.0.0.1 (PEM)."""
    key: Path
    authority: Path
    """Certificate (PEM) that the first is checked against; of a self-signed one, itself."""
    sites: Mapping[str, Path]
    """Public keys by site (OpenSSH format, a NIST curve: ``ssh-keygen -t ecdsa -b 384``)."""


@dataclass(frozen=True)
class _Waiting:
    """A message that is not answered yet."""

    site: str
    message: bytes
    deadline: float


class FlowerServerTransport:
    """The server's end: starts a SuperLink on loopback, and again whenever it or its run is lost.

    With ``security`` a node is the site whose key it has. Without, the server is for this machine
    alone, and a node is the site that it says it is.

    Args:
        sites: Names of the sites; other nodes are ignored.
        directory: Directory of its own for Flower's database, logs and the socket.
        port: Port of the SuperLink on 127.0.0.1; any free one by default.
        security: TLS and the sites' keys.
        programs: Directory of Flower's programs; by default that of ``make flower``.
    """

    def __init__(
        self,
        sites: Collection[str],
        directory: Path,
        port: int | None = None,
        security: ServerSecurity | None = None,
        programs: Path | None = None,
    ) -> None:
        self._sites = frozenset(sites)
        self._flower = FlowerPrograms(directory, programs)
        self._security = security
        self.address = f"{HOST}:{port or free_port()}"
        """Address of the SuperLink, for SuperNodes on this machine or a proxy in front."""
        self._online: frozenset[str] = frozenset()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._answers: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._group: Group | None = None
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        """Held to write to the connection or to replace it."""
        self._closed = threading.Event()
        self._socket = self._flower.directory / "server.sock"
        self._registered = self._flower.directory / "registered.json"
        """The sites' nodes and keys that are in the SuperLink's database; missing if in doubt."""
        self._listener = listen(self._socket)
        try:
            self._connect()
        except BaseException:
            self._listener.close()
            raise
        self._thread = threading.Thread(target=self._watch, name="flower", daemon=True)
        self._thread.start()

    def online(self) -> frozenset[str]:
        return self._online

    def exchange(
        self, messages: Mapping[str, bytes], patience: float, arrived: Arrived
    ) -> frozenset[str]:
        deadline = time.monotonic() + patience
        numbers = {next(self._numbers): site for site in messages}
        taken: set[str] = set()
        with self._lock:
            for number, site in numbers.items():
                self._waiting[number] = _Waiting(site, messages[site], deadline)
                self._send(number)
        try:
            while len(taken) < len(messages) and (left := deadline - time.monotonic()) > 0:
                with suppress(queue.Empty):
                    number, answer = self._answers.get(timeout=left)
                    if number not in self._waiting:
                        continue
                    accepted = arrived(numbers[number], answer)
                    with self._lock:
                        if accepted:
                            taken.add(numbers[number])
                            del self._waiting[number]
                        else:
                            self._send(number)
        finally:
            with self._lock:
                for number in numbers.keys() & self._waiting.keys():
                    del self._waiting[number]
                    self._write({"kind": "withdraw", "number": number})
        return frozenset(taken)

    def close(self) -> None:
        self._closed.set()
        self._disconnect()
        self._thread.join()
        self._disconnect()
        self._listener.close()
        self._socket.unlink(missing_ok=True)

    # -- messages to the pump ------------------------------------------------------------------

    def _send(self, number: int) -> None:
        """Send a message to the pump; without one, it is sent as soon as there is one."""
        waiting = self._waiting[number]
        patience = waiting.deadline - time.monotonic()
        header = {"kind": "send", "number": number, "site": waiting.site, "patience": patience}
        self._write(header, waiting.message)

    def _write(self, header: Mapping[str, object], body: bytes = b"") -> None:
        if self._connection is not None:
            try:
                frames.send(self._connection, header, body)
            except OSError:
                with suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    # -- supervision ---------------------------------------------------------------------------

    def _watch(self) -> None:
        """Take what the pump sends; start everything again when it is lost."""
        while not self._closed.is_set():
            self._take_all()
            self._disconnect()
            if not self._closed.is_set():
                _log.warning("Flower is lost and is started again; see %s", self._flower.log)
                try:
                    self._connect()
                except UserError as error:
                    _log.warning("%s", error)
                    self._closed.wait(_PAUSE)

    def _take_all(self) -> None:
        """Take frames of the pump until it is lost."""
        with suppress(OSError, frames.FrameError, ValueError):
            while (connection := self._connection) and self._group and not self._group.ended():
                if not select.select([connection], [], [], 1.0)[0]:
                    continue
                frame = frames.receive(connection)
                if frame is None:
                    return
                header, body = frame
                if header["kind"] == "answer":
                    self._answers.put((int(header["number"]), body))
                else:
                    self._online = self._sites & set(header["sites"])

    def _connect(self) -> None:
        """Start the SuperLink, let in the sites, submit the run, wait for its pump."""
        flower = self._flower
        authority: Path | None = None
        link = execution = ["--insecure"]
        if self._security is not None:
            authority = self._security.authority
            execution = ["--root-certificates", str(authority)]
            link = ["--ssl-certfile", str(self._security.certificate)]
            link += ["--ssl-keyfile", str(self._security.key), "--ssl-ca-certfile", str(authority)]
            link += ["--enable-supernode-auth"]
        host, port = self.address.split(":")
        link = ["flower-superlink", "--host", host, "--port", port, *link]
        link += ["--database", str(self._database())]
        link += ["--disable-runtime-dependency-installation"]
        group = flower.start(link, self.address, execution)
        with self._lock:
            self._group = group
        try:
            flower.wait_for(self.address, group, _START)
            flower.write_connection(self.address, authority)
            self._register()
            self._submit()
            connection = self._accept(group)
        except BaseException:
            group.end()
            raise
        with self._lock:
            self._connection = connection
            for number in self._waiting:
                self._send(number)

    def _database(self) -> Path:
        """Return the SuperLink's database; one without the list of its keys is of no use."""
        database = self._flower.directory / "superlink.db"
        if self._security is not None and not self._registered.exists():
            for ending in ("", "-wal", "-shm"):
                database.with_name(database.name + ending).unlink(missing_ok=True)
        return database

    def _register(self) -> None:
        """Let in the sites' keys that the SuperLink's database does not have yet."""
        if self._security is None:
            return
        known = json.loads(self._registered.read_text()) if self._registered.exists() else {}
        self._registered.unlink(missing_ok=True)
        for site, file in self._security.sites.items():
            key = file.read_text()
            node, registered = known.get(site, ("", ""))
            if key == registered:
                continue
            if node:
                self._flower.run("supernode", "unregister", node, "comity")
            result = self._flower.run("supernode", "register", str(file), "comity", "--name", site)
            known[site] = (str(result["node-id"]), key)
        self._registered.write_text(json.dumps(known))

    def _submit(self) -> None:
        """Submit the run of the pumps; an earlier one is stopped."""
        path = self._flower.directory / "run"
        if path.exists():
            with suppress(UserError):
                self._flower.run("stop", path.read_text(), "comity")
        name = json.dumps(str(self._socket))
        result = self._flower.run("run", str(_APP), "comity", "--run-config", f"socket={name}")
        path.write_text(str(result["run-id"]))

    def _accept(self, group: Group) -> socket.socket:
        """Wait for the pump of the run."""
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline and not group.ended():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(_STALLED)
                return connection
        raise self._flower.fault("the Flower app did not start")

    def _disconnect(self) -> None:
        """Let go of the pump, which ends the run, and end the processes."""
        with self._lock:
            connection, self._connection = self._connection, None
            group, self._group = self._group, None
        self._online = frozenset()
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        if group is not None:
            group.end()
