"""Lines that tests have executed, per room: ``python -m tests.covered`` after a run with --cov."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from coverage import Coverage

import comity

HOME = Path(comity.__file__).parent


def rooms(coverage: Coverage) -> dict[str, tuple[int, dict[str, list[int]]]]:
    """Return the number of lines of each room, and those that nothing executed, by file."""
    found: dict[str, tuple[int, dict[str, list[int]]]] = {}
    for path in sorted(HOME.rglob("*.py")):
        place = path.relative_to(HOME)
        _, lines, _, missing, _ = coverage.analysis2(str(path))
        count, files = found.get(place.parts[0], (0, {}))
        found[place.parts[0]] = (count + len(lines), {**files, str(place): missing})
    return found


def table(found: dict[str, tuple[int, dict[str, list[int]]]], named: list[str]) -> Iterator[str]:
    """Yield a line per room, and below it the lines not executed of rooms that are named."""
    for room, (count, files) in found.items():
        missed = sum(map(len, files.values()))
        share = 100 * (1 - missed / count) if count else 100.0
        yield f"{room:16} {count:6} lines  {missed:5} missed  {share:6.2f} %"
        if room in named:
            for file, lines in files.items():
                if lines:
                    yield f"    {file}: {', '.join(map(str, lines))}"
    total = sum(count for count, _ in found.values())
    missed = sum(len(lines) for _, files in found.values() for lines in files.values())
    yield f"{'all':16} {total:6} lines  {missed:5} missed  {100 * (1 - missed / total):6.2f} %"


if __name__ == "__main__":
    coverage = Coverage()
    coverage.load()
    print(*table(rooms(coverage), sys.argv[1:]), sep="\n")
