"""A site's pump: one message of Flower <-> Unix socket of `comity join`."""

from __future__ import annotations

import socket
import time

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from . import frames

RECORD = "comity"
"""Name of the only record of a message."""
MARGIN = 600.0
"""Seconds that a message of Flower lives beyond patience. Without a valid reply to everything it
fetched, a SuperNode never fetches again, and a reply may not be older than its message allows."""
RETRY = 1.0


def answer(message: Message, context: Context) -> Message:
    """Reply to a greeting with the site's name, to a message with the site's answer.

    Nothing is raised: Flower would send the text of an exception to the server.
    """
    record = ConfigRecord({"kind": "absent"})
    try:
        asked = message.content.config_records[RECORD]
        if asked["kind"] == "hello":
            record = ConfigRecord({"kind": "hello", "site": str(context.node_config["site"])})
        else:
            left = message.metadata.created_at + message.metadata.ttl - MARGIN - time.time()
            sealed = _ask(str(context.node_config["socket"]), bytes(asked["sealed"]), left)
            if sealed is not None:
                record = ConfigRecord({"kind": "answer", "sealed": sealed})
    except Exception as error:
        print(f"no answer: {type(error).__name__}")
    return Message(RecordDict({RECORD: record}), reply_to=message)


def _ask(path: str, sealed: bytes, seconds: float) -> bytes | None:
    """Return the site's answer, or None after ``seconds``; wait while `comity join` is down."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(left)
            try:
                connection.connect(path)
                frames.send(connection, {"kind": "message"}, sealed)
                frame = frames.receive(connection)
            except (OSError, frames.FrameError):
                frame = None
        if frame is not None:
            return frame[1]
        time.sleep(RETRY)
    return None


app = ClientApp()
app.query()(answer)
