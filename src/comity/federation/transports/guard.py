"""Run commands that live and die together: a script, started by `processes.Group`.

The commands end when one of them ends, when standard input is closed (so also when the process that
started this one is killed) and on SIGTERM. All of them, and what they start, share one process
group; its last members are killed. Standard library only, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

POLL = 0.5
GRACE = 5.0
"""Seconds for the commands to end by themselves."""


def main(commands: list[list[str]]) -> None:
    """Run the commands; ends by killing its own process group.

    Args:
        commands: Programs with their arguments. They inherit standard error only.
    """
    signals: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    children = []
    try:
        for command in commands:
            children.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
            )
        while not signals and all(child.poll() is None for child in children):
            if select.select([sys.stdin], [], [], POLL)[0]:
                break
        os.killpg(0, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and any(child.poll() is None for child in children):
            time.sleep(0.1)
    finally:
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
