"""Kill runs, comparisons, searches and pretraining at random moments, and resume them.

Every trial ends with the same bytes as work that was never killed, or with a refusal in one line.
Prints a table. ``python -m benchmarks.crashes --trials 5 --seed 1``
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

CODE = """
import comity.runs.execute, comity.searches.mofld, comity.report, comity.cli
comity.runs.execute._CHECKPOINT_SECONDS = comity.searches.mofld._CHECKPOINT_SECONDS = 0.05
if {draw} == 0:
    for name in ("run", "search", "comparison", "searches"):
        kind = "" if name == "run" else name + "_"
        setattr(comity.report, "write_" + kind + "report", lambda *a, **k: None)
if __name__ == "__main__":
    comity.cli.main()
"""
"""The command line with checkpoints every 0.05 seconds, and with or without pictures."""
TREASURE = [
    *("deep-sea-treasure", "--clients", "4", "--rounds", "6", "--set", "chunk=2"),
    *("--set", "dqn.local_steps=96", "--set", "dqn.learning_starts=16"),
]
COMMANDS = {
    "run": ["run", *TREASURE, "--algorithm", "fedpref"],
    "compare": ["compare", *TREASURE, "--algorithms", "fedavg,fedpref", "--seeds", "1"],
    "search": ["search", *TREASURE, "--rounds", "2", "--iterations", "3", "--candidates", "2"],
    "pretrain": [
        *("pretrain", "pfedrlla", "german-credit-gender-dp", "--clients", "4", "--rounds", "6"),
        *("--set", "chunk=2", "--set", "supervised.local_steps=20"),
    ],
}
VARYING = {"timing.json"}
"""Files whose bytes differ from time to time."""
TIMES = re.compile(rb"(the server&#x27;s time, of the clients&#x27;</th><td>)[^<]*")
"""What differs from time to time in the report of a run."""
DRAWN = {".csv", ".html", ".js", ".png", ".tex"}
"""Files of reports, which count only where they are drawn."""


@dataclass
class Tally:
    """Outcomes of the trials of one kind."""

    kills: int = 0
    equal: int = 0
    refused: int = 0
    """Processes that were refused in one line."""
    faults: list[str] = field(default_factory=list)


def start(home: Path, arguments: list[str], draw: bool = False) -> subprocess.Popen[str]:
    """Start the command line in a session of its own.

    Args:
        home: The working directory.
        arguments: Its arguments.
        draw: Whether reports are drawn.
    """
    return subprocess.Popen(
        [sys.executable, "-c", CODE.format(draw=int(draw)), *arguments],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def command(kind: str, out: str, workers: int) -> list[str]:
    """Return the arguments of a command; ``out`` is the directory that it works in."""
    agent = ["--run", out, "--out", f"{out}.safetensors"]
    place = agent if kind == "pretrain" else ["--out", out]
    return [*COMMANDS[kind], *place, "--workers", str(workers)]


def kill_after(process: subprocess.Popen[str], directory: Path, seconds: float) -> bool:
    """Kill a process and its workers some time after it has made its directory.

    Returns:
        Whether it was still at work.
    """
    while process.poll() is None and not directory.exists():
        time.sleep(0.002)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    return False


def content(directory: Path, draw: bool) -> dict[str, bytes]:
    """Return the files of finished work that must be equal, by name; reports only if drawn."""
    return {
        str(path.relative_to(directory)): TIMES.sub(rb"\1", path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in VARYING and (draw or path.suffix not in DRAWN)
    }


def differences(whole: Path, broken: Path, draw: bool) -> str:
    """Return the names of files that only one of two directories has, or that differ."""
    first, second = content(whole, draw), content(broken, draw)
    names = sorted(first.keys() ^ second.keys())
    names += [name for name in first if name in second and first[name] != second[name]]
    return ", ".join(names)


def go_on(home: Path, kind: str, workers: int, draw: bool) -> subprocess.Popen[str]:
    """Start what a user starts after a crash: the same command, or ``comity resume``."""
    marks = ("config.toml", "comparison.toml")
    begun = any((home / "broken" / mark).is_file() for mark in marks)
    arguments = ["resume", "broken", "--workers", str(workers)]
    return start(home, arguments if begun else command(kind, "broken", workers), draw)


def _lines(errors: str) -> list[str]:
    return [line for line in errors.splitlines() if line.startswith("comity: ")]


def trial(
    home: Path, kind: str, workers: int, chance: random.Random, seconds: float, tally: Tally,
    draw: bool = False,
) -> None:  # fmt: skip
    """Kill one piece of work one to three times, resume it, and compare.

    Args:
        home: The working directory, with uninterrupted work in ``whole``.
        kind: A name in `COMMANDS`.
        workers: Number of processes.
        chance: Chooses the moments.
        seconds: Time that uninterrupted work takes.
        tally: Takes the outcome.
        draw: Whether reports are drawn.
    """
    broken = home / "broken"
    process = start(home, command(kind, "broken", workers), draw)
    for _ in range(chance.choice((1, 2, 3))):
        if not kill_after(process, broken, chance.uniform(0, seconds)):
            break
        tally.kills += 1
        process = go_on(home, kind, workers, draw)
    _, errors = process.communicate()
    if process.returncode == 2 and "finished already" in errors:
        tally.refused += 1
    elif process.returncode != 0:
        tally.faults.append(f"{kind}, {workers}: exit code {process.returncode}: {errors[-300:]}")
    _compare(home, kind, tally, draw)


def double(
    home: Path, kind: str, workers: int, chance: random.Random, seconds: float, tally: Tally
) -> None:
    """Kill work once, resume it twice at the same time, and compare; arguments as of `trial`."""
    process = start(home, command(kind, "broken", workers))
    tally.kills += kill_after(process, home / "broken", chance.uniform(0, seconds))
    pair = [go_on(home, kind, workers, draw=False) for _ in range(2)]
    for process in pair:
        _, errors = process.communicate()
        clear = len(_lines(errors)) == 1 and "Traceback" not in errors
        if process.returncode == 2 and clear:
            tally.refused += 1
        elif process.returncode != 0:
            tally.faults.append(f"{kind}, two at once: {process.returncode}: {errors[-300:]}")
    if all(process.returncode != 0 for process in pair) and not _finished(home / "broken"):
        process = go_on(home, kind, workers, draw=False)  # both were refused by each other
        process.communicate()
    _compare(home, kind, tally, draw=False)


def _finished(directory: Path) -> bool:
    return any((directory / name).is_file() for name in ("results.json", "comparison.json"))


def _compare(home: Path, kind: str, tally: Tally, draw: bool) -> None:
    different = differences(home / "whole", home / "broken", draw)
    if different:
        tally.faults.append(f"{kind}: not equal: {different}")
    else:
        tally.equal += 1


def measure(kind: str, workers: int, trials: int, seed: int, draw: bool = False) -> list[Tally]:
    """Return the outcomes of kills, and of two resumes at once.

    Args:
        kind: A name in `COMMANDS`.
        workers: Number of processes.
        trials: Trials of either.
        seed: Of the moments.
        draw: Whether reports are drawn.
    """
    chance = random.Random(f"{kind} {workers} {seed}")
    tallies = [Tally(), Tally()]
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "reference"
        whole.mkdir()
        process = start(whole, command(kind, "whole", workers), draw)
        while process.poll() is None and not (whole / "whole").exists():
            time.sleep(0.002)
        began = time.monotonic()
        _, errors = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(errors)
        seconds = time.monotonic() - began
        for number in range(trials):
            for attempt, tally in zip((trial, double), tallies, strict=True):
                home = Path(place) / f"{attempt.__name__}-{number}"
                home.mkdir()
                (home / "whole").symlink_to(whole / "whole")
                if attempt is trial:
                    trial(home, kind, workers, chance, seconds, tally, draw)
                elif not draw:
                    double(home, kind, workers, chance, seconds, tally)
    return tallies


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(COMMANDS))
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--draw", action="store_true", help="draw reports, too")
    options = parser.parse_args()
    faults: list[str] = []
    print("| work | workers | trial | trials | kills | equal bytes | refused clearly | faults |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in options.kinds.split(","):
        for workers in map(int, options.workers.split(",")):
            tallies = measure(kind, workers, options.trials, options.seed, options.draw)
            for name, tally in zip(
                ("killed, resumed", "resumed twice at once"), tallies, strict=True
            ):
                trials = tally.equal + sum("not equal" in fault for fault in tally.faults)
                print(
                    f"| {kind} | {workers} | {name} | {trials} | {tally.kills} | {tally.equal} | "
                    f"{tally.refused} | {len(tally.faults)} |",
                    flush=True,
                )
                faults += tally.faults
    for fault in faults:
        print(fault)


if __name__ == "__main__":
    main()
