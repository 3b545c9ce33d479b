"""CPU time and memory of a process and all below it, from Linux's /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def _processes(root: int) -> Iterator[Path]:
    """Yield the directories of a process and its descendants, as far as they have not ended."""
    folder = Path("/proc") / str(root)
    try:
        yield folder
        for children in folder.glob("task/*/children"):
            for child in children.read_text().split():
                yield from _processes(int(child))
    except OSError:
        return


def identities(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    return [int(folder.name) for folder in _processes(root)]


def cpu_seconds(root: int) -> float:
    """Return user and system time of a process tree, that of its ended processes included."""
    total = 0
    for folder in _processes(root):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # own and waited-for children's, user and system
    return total / _TICK


def memory(root: int) -> float:
    """Return the MB of a process tree; what n processes share counts 1/n in each (PSS)."""
    total = 0
    for folder in _processes(root):
        try:
            lines = (folder / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024
