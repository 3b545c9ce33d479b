"""What the tests with real processes of Flower share."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from comity.federation.transports.base import SiteTransport

DEFAULT = Path(__file__).parents[2] / ".venv-flower" / "bin"
PROGRAMS_AT = Path(os.environ.get("COMITY_FLOWER_BIN", DEFAULT)).absolute()
LONG = 300.0
"""Seconds that are enough on a busy machine: several processes of Flower start in this time."""

flower = [
    pytest.mark.flower,
    pytest.mark.skipif(
        not (PROGRAMS_AT / "flwr").exists(),
        reason=f"Flower is not in {PROGRAMS_AT}: `make flower`, or set COMITY_FLOWER_BIN",
    ),
]


@dataclass
class Echo:
    """A site that answers in this process: with the message reversed and its own name."""

    name: str
    transport: SiteTransport
    asked: list[bytes] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    """Answers wait until it is set."""
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.hold.set()
        self.thread = threading.Thread(
            target=self.transport.serve, args=(self.answer, self.ended.is_set)
        )
        self.thread.start()

    def answer(self, message: bytes) -> bytes:
        self.asked.append(message)
        assert self.hold.wait(LONG)
        return message[::-1] + self.name.encode()

    def end(self) -> None:
        self.hold.set()
        self.ended.set()
        self.thread.join()
        self.transport.close()
