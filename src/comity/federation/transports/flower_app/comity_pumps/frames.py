"""Frames on the Unix sockets between Comity and its Flower app. Standard library only.

A frame is its length (8 bytes, big-endian), a header (one line of JSON) and a body (any bytes).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

MOST_HEADER = 64 * 1024
MOST_BODY = 1 << 30
_LENGTH = 8

Frame = tuple[dict[str, Any], bytes]


class FrameError(Exception):
    """Bytes on a socket that are no frame, or a frame that is too large."""


def send(connection: socket.socket, header: Mapping[str, object], body: bytes = b"") -> None:
    """Send one frame.

    Args:
        connection: A connected socket.
        header: A small JSON object.
        body: Any bytes.
    """
    line = json.dumps(header).encode() + b"\n"
    if len(line) > MOST_HEADER or len(body) > MOST_BODY:
        raise FrameError(f"a frame of {len(line)} + {len(body)} bytes is too large")
    connection.sendall((len(line) + len(body)).to_bytes(_LENGTH, "big") + line)
    connection.sendall(body)


def receive(connection: socket.socket) -> Frame | None:
    """Return the next frame, or None if the other side has closed the connection.

    Args:
        connection: A connected socket.
    """
    start = _read(connection, _LENGTH)
    if not start:
        return None
    length = int.from_bytes(start, "big")
    if not len(start) == _LENGTH or length > MOST_HEADER + MOST_BODY:
        raise FrameError("a frame begins with an impossible length")
    content = _read(connection, length)
    end = content.find(b"\n", 0, MOST_HEADER)
    if len(content) < length or end < 0:
        raise FrameError("a frame is cut off or has no header")
    try:
        header = json.loads(content[:end])
    except ValueError as error:
        raise FrameError("the header of a frame is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError("the header of a frame is not an object")
    return header, bytes(memoryview(content)[end + 1 :])


def _read(connection: socket.socket, length: int) -> bytearray:
    """Read ``length`` bytes, or fewer if the connection ends before."""
    content = bytearray()
    while len(content) < length:
        part = connection.recv(min(1 << 20, length - len(content)))
        if not part:
            break
        content += part
    return content
