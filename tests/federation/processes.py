"""What the tests of real processes share."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition holds; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)


def members(group: int) -> dict[int, str]:
    """Return the living processes of a process group: commands by process id."""
    return {pid: command for pid, (of, command) in processes().items() if of == group}


def processes() -> dict[int, tuple[int, str]]:
    """Return all living processes: process group and command by process id."""
    found = {}
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            state, _, group, *_ = (directory / "stat").read_text().rpartition(")")[2].split()
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(directory.name)] = (int(group), command)
    return found


def with_path(path: Path) -> set[int]:
    """Return the process groups of commands that name a path."""
    return {group for group, command in processes().values() if f"{path}" in command}
