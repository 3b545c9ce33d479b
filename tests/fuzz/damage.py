"""Damage to the files of a run, and what reads them afterwards."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.fuzz.harness import Call, mutated, run_call
from tests.fuzz.inputs import CREDIT, TREASURE

RESUME = ["resume", "interrupted", "--workers", "1", "--json"]
EXPORT = ["export", "finished", "m.safetensors", "--client", "0"]
REPORT = ["report", "finished", "--json"]
FILES = {
    "checkpoint.safetensors": RESUME,
    "history.jsonl": RESUME,
    "config.toml": RESUME,
    "models/client-0.safetensors": EXPORT,
    "results.json": REPORT,
    "report of history.jsonl": REPORT,
    "report of config.toml": REPORT,
}
"""Which command reads a file of which directory."""


def prepare(home: Path) -> Path:
    """Make a finished run, an interrupted one, and an agent; return their directory."""
    run = ["run", "deep-sea-treasure", *TREASURE, "--algorithm", "fedavg", "--rounds", "2"]
    keep = ["--set", "keep_checkpoint=true"]
    agent = ["pretrain", "pfedrlla", *CREDIT, "--out", "agent.safetensors"]
    for arguments in (
        [*run, "--out", "finished"],
        [*run, *keep, "--out", "interrupted"],
        [*agent, "--run", "learning"],
    ):
        outcome = run_call(Call(arguments), home)
        assert outcome.code == 0, outcome
    shutil.copytree(home / "interrupted", home / "whole")
    for name in ("results.json", "checksums.json"):
        (home / "interrupted" / name).unlink()
    for arguments in (EXPORT, REPORT):
        assert run_call(Call(arguments), home).code == 0
    shutil.copytree(home / "interrupted", home / "copy" / "interrupted")
    assert run_call(Call(RESUME), home / "copy").code == 0
    assert not _silent(0, RESUME, home / "copy", home)
    return home


def faults(name: str, seed: int, count: int, source: Path, directory: Path) -> list[str]:
    """Return the damages to a file, each tried once, after which something is wrong.

    Args:
        name: A name in `FILES`.
        seed: Of the damages.
        count: Number of damages.
        source: What `prepare` returned.
        directory: Where copies are made.
    """
    chance = random.Random(f"{name} {seed}")
    arguments, bad = FILES[name], []
    for number in range(count):
        home = directory / str(number)
        shutil.copytree(source / arguments[1], home / arguments[1])
        path = home / arguments[1] / name.removeprefix("report of ")
        before = path.read_bytes()
        after = mutated(chance, before)
        path.write_bytes(after)
        outcome = run_call(Call(arguments), home)
        fault = outcome.fault or _silent(outcome.code, arguments, home, source)
        if fault:
            pairs = zip(before, after, strict=False)
            place = next((i for i, (x, y) in enumerate(pairs) if x != y), len(after))
            bad.append(
                f"{number}: {name} at {place}: {before[place : place + 40]!r} became "
                f"{after[place : place + 40]!r}\n{fault}"
            )
    return bad


def _silent(code: int | None, arguments: list[str], home: Path, source: Path) -> str:
    """Return what a command that used a damaged file made of it, if that is not the same."""
    if code != 0:
        return ""
    file, whole = {
        "resume": (home / "interrupted" / "results.json", source / "whole" / "results.json"),
        "report": (home / "finished" / "results.json", source / "finished" / "results.json"),
        "export": (home / "m.safetensors", source / "m.safetensors"),
    }[arguments[0]]
    return "" if file.read_bytes() == whole.read_bytes() else f"another {file.name}"
