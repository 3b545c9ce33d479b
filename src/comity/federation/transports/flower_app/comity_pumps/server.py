"""The server's pump: Unix socket of `comity serve` <-> messages on Flower's grid."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from . import frames
from .site import MARGIN, RECORD

POLL = 0.5
"""Seconds between two looks at the grid while something is under way."""
IDLE = 2.0
"""The same while nothing is."""
TIMEOUT = 60.0
"""Seconds until a socket or the answer to a greeting counts as dead."""


@dataclass(frozen=True)
class Node:
    """One connection of a SuperNode: a restarted one has another time of activation."""

    id: int
    activated: str


@dataclass
class Waiting:
    """A message of `comity serve` that is not answered yet."""

    site: str
    body: bytes
    deadline: float
    node: Node | None = None
    """Node that it was pushed to last."""
    message: str = ""
    """Flower's id of the copy that was pushed last."""


class Pump:
    """Move messages between one socket and one grid.

    Args:
        grid: Flower's grid.
        connection: The socket of `comity serve`.
    """

    def __init__(self, grid: Grid, connection: socket.socket) -> None:
        self._grid = grid
        self._connection = connection
        self._waiting: dict[int, Waiting] = {}
        self._names: dict[int, str] = {}
        """Sites by node id, as they answered a greeting."""
        self._greeted: dict[int, tuple[str, float]] = {}
        """Greetings that wait for an answer, by node id: message and time."""
        self._here: dict[str, Node] = {}

    def run(self) -> None:
        """Pump until the socket is closed."""
        while self._take():
            self._look()
            self._push()
            self._pull()

    def _take(self) -> bool:
        """Take what `comity serve` sent; return whether its socket is open."""
        busy = self._waiting or any(message for message, _ in self._greeted.values())
        wait = POLL if busy else IDLE
        while select.select([self._connection], [], [], wait)[0]:
            frame = frames.receive(self._connection)
            if frame is None:
                return False
            header, body = frame
            number = int(header["number"])
            if header["kind"] == "send":
                deadline = time.monotonic() + float(header["patience"])
                self._waiting[number] = Waiting(str(header["site"]), body, deadline)
            else:
                self._waiting.pop(number, None)
            wait = 0.0
        return True

    def _look(self) -> None:
        """Find out which sites are online, and tell `comity serve` if that has changed.

        A registered node has its site's name. Any other node is asked for it.
        """
        here: dict[str, Node] = {}
        for info in sorted(self._grid.get_nodes(), key=lambda info: info.last_activated_at):
            name = info.name or self._names.get(info.node_id)
            if name:
                here[name] = Node(info.node_id, info.last_activated_at)
            elif time.monotonic() - self._greeted.get(info.node_id, ("", -TIMEOUT))[1] >= TIMEOUT:
                message = self._post(info.node_id, ConfigRecord({"kind": "hello"}), TIMEOUT)
                self._greeted[info.node_id] = (message, time.monotonic())
        if set(here) != set(self._here):
            frames.send(self._connection, {"kind": "online", "sites": sorted(here)})
        self._here = here

    def _push(self) -> None:
        """Push what is new, what came back as an error, and what its site lost in a restart."""
        now = time.monotonic()
        alive = {n: waiting for n, waiting in self._waiting.items() if now < waiting.deadline}
        self._waiting = alive
        for waiting in alive.values():
            node = self._here.get(waiting.site)
            if node is not None and node != waiting.node:
                record = ConfigRecord({"kind": "message", "sealed": waiting.body})
                waiting.message = self._post(node.id, record, waiting.deadline - now)
                waiting.node = node if waiting.message else None

    def _post(self, node: int, record: ConfigRecord, patience: float) -> str:
        """Push one message; return Flower's id of it, empty if it was not taken."""
        content = RecordDict({RECORD: record})
        message = Message(content, node, MessageType.QUERY, ttl=patience + MARGIN)
        return next(iter(self._grid.push_messages([message])), None) or ""

    def _pull(self) -> None:
        """Fetch replies. They are told apart by what they reply to: errors have another sender."""
        copies = {waiting.message: number for number, waiting in self._waiting.items()}
        greetings = {message: node for node, (message, _) in self._greeted.items()}
        asked = [message for message in (*copies, *greetings) if message]
        for reply in self._grid.pull_messages(asked) if asked else ():
            message = reply.metadata.reply_to_message_id
            record = _record(reply)
            if message in greetings:
                node = greetings[message]
                self._greeted[node] = ("", self._greeted[node][1])
                if record.get("kind") == "hello":
                    self._names[node] = str(record["site"])
            elif message in copies and record.get("kind") == "answer":
                number = copies[message]
                frames.send(
                    self._connection, {"kind": "answer", "number": number}, bytes(record["sealed"])
                )
                del self._waiting[number]
            elif message in copies:
                self._waiting[copies[message]].node = None


def _record(reply: Message) -> ConfigRecord:
    """Return the record of a reply, empty if it is an error or not ours."""
    if reply.has_error() or RECORD not in reply.content.config_records:
        return ConfigRecord()
    return reply.content.config_records[RECORD]


def main(grid: Grid, context: Context) -> None:
    """Connect to `comity serve` and pump."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        connection.connect(str(context.run_config["socket"]))
        Pump(grid, connection).run()


app = ServerApp()
app.main()(main)
