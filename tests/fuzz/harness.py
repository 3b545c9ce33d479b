"""One fuzzed call of the command line in this process, and the judgement of how it ended."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comity.cli import main

MOST_WORK = 40
"""Largest product of clients, rounds and steps of a run that is executed."""


MOST_ITERATIONS = 6
"""Largest number of runs, or of iterations of a search, that one call executes."""


class TooMuchWorkError(BaseException):
    """A run that is valid and long: it is not executed."""


@dataclass
class Call:
    """What is tried: the arguments, and the files that are there before."""

    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    prepare: Callable[[Path], None] | None = None
    """Brings more into the directory, such as a finished run."""


@dataclass
class Outcome:
    """How a call ended."""

    code: int | None
    """Exit code; None: a traceback, or too much work."""
    output: str
    errors: str
    fault: str = ""
    """What is wrong with it; nothing, if all is well."""


def run_call(call: Call, home: Path) -> Outcome:
    """Call the command line in an empty directory, and judge the end.

    Good ends are results that are valid, and a refusal in one line with exit code 2. Work that is
    valid and too long for a test counts as the former.

    Args:
        call: What is tried.
        home: The directory.
    """
    for name, content in call.files.items():
        (home / name).write_bytes(content)
    if call.prepare is not None:
        call.prepare(home)
    before = Path.cwd()
    argv, path = sys.argv, list(sys.path)
    output, errors = io.StringIO(), io.StringIO()
    os.chdir(home)
    sys.argv = ["comity", *call.arguments]
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            main()
    except SystemExit as end:
        outcome = Outcome(int(end.code or 0), output.getvalue(), errors.getvalue())
    except TooMuchWorkError:
        return Outcome(None, output.getvalue(), errors.getvalue())
    except BaseException:
        text = traceback.format_exc()
        return Outcome(None, output.getvalue(), errors.getvalue(), f"traceback\n{text}")
    finally:
        os.chdir(before)
        sys.argv, sys.path[:] = argv, path
    outcome.fault = _fault(outcome, home)
    return outcome


def _fault(outcome: Outcome, home: Path) -> str:
    """Return what is wrong with how a call ended."""
    if outcome.code == 2:
        said = outcome.errors.removeprefix("WARNING: ")
        lines = [line for line in said.splitlines() if line.startswith("comity: ")]
        if len(lines) != 1:
            return f"refused in {len(lines)} lines: {outcome.errors!r}"
        return "no reason is given" if len(lines[0]) < 15 else ""
    if outcome.code != 0:
        return f"exit code {outcome.code}: {outcome.errors!r}"
    for path in [*home.rglob("*.json"), *home.rglob("*.jsonl")]:
        try:
            for text in path.read_text().splitlines() if path.suffix == ".jsonl" else [""]:
                value = json.loads(text or path.read_text(), parse_constant=_refuse)
                if path.name == "results.json":
                    _check_results(value)
        except (ValueError, KeyError, AssertionError) as error:
            return f"accepted, but {path.name} is not valid: {error!r}"
    return ""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _check_results(results: dict[str, Any]) -> None:
    """Check that results have clients or a front, and preferences on the simplex."""
    for row in results.get("per_client", []):
        weights = [weight for weight in row.get("preference") or [] if weight is not None]
        assert not weights or abs(sum(weights) - 1) < 1e-6, weights
    assert results.get("per_client") or results.get("front"), "no clients and no front"


def faults(cases: Iterator[Call], count: int, directory: Path) -> list[str]:
    """Return the calls among the first ``count`` that end badly, with what is wrong.

    Args:
        cases: The calls.
        count: Number of calls to try.
        directory: Where their directories are made.
    """
    bad = []
    for number in range(count):
        call = next(cases)
        home = directory / str(number)
        home.mkdir(parents=True)
        outcome = run_call(call, home)
        if outcome.fault:
            bad.append(f"{number}: {call.arguments} {call.files}\n{outcome.fault}")
    return bad


def mutated(chance: random.Random, content: bytes) -> bytes:
    """Return bytes with some damage: flipped, cut, doubled, overwritten or removed."""
    if not content:
        return b"\0"
    place, length = chance.randrange(len(content)), chance.choice((1, 1, 4, 64))
    head, middle, tail = content[:place], content[place : place + length], content[place + length :]
    kind = chance.choice(("flip", "cut", "double", "noise", "remove", "zero"))
    if kind == "flip":
        return head + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
    if kind == "noise":
        return head + chance.randbytes(length) + tail
    return {
        "cut": head,
        "double": head + middle + middle + tail,
        "remove": head + tail,
        "zero": head + b"\0" * len(middle) + tail,
    }[kind]
