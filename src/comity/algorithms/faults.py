"""Faults of an algorithm of the user's own: named with hook and line, refused where they show."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from traceback import extract_tb

from pydantic import ValidationError
from torch import nn

from comity.algorithms.base import Algorithm
from comity.algorithms.registry import find, is_shipped
from comity.core.phases import Phase
from comity.errors import RefusedError, StoppedError, UserError
from comity.problems import Problem

_NOT_THEIRS = (UserError, RefusedError, StoppedError, OSError, MemoryError)


@contextmanager
def named_faults(algorithm: str, round: int) -> Iterator[None]:
    """Turn an exception of a user's own algorithm into a `UserError`, with it as the cause.

    Exceptions of shipped algorithms stay as they are: they are faults of Comity.

    Args:
        algorithm: Its name, as `find` takes it.
        round: The round that is under way.
    """
    try:
        yield
    except _NOT_THEIRS:
        raise
    except Exception as error:
        cls = find(algorithm)
        if is_shipped(cls):
            raise
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        own = [frame for frame in extract_tb(error.__traceback__) if frame.filename == file]
        where = ""
        if own:
            where = f", {own[0].name} ({Path(own[-1].filename).name}, line {own[-1].lineno})"
        raise UserError(f"algorithm '{algorithm}', round {round}{where}: {_text(error)}") from error


def _text(error: Exception) -> str:
    """Return an exception in one line, in words of hooks where a library's own mislead."""
    if isinstance(error, ValidationError) and error.errors()[0]["type"] == "frozen_instance":
        name = error.errors()[0]["loc"][0]
        return (
            f"{name} cannot be set: fields are settings, which do not change. What the server "
            f"remembers is declared with an underscore: _{name}: int = 0."
        )
    if "data-dependent control flow" in str(error):
        return "a hook on a client must not branch on the value of a tensor; use torch.where."
    return " ".join(f"{type(error).__name__}: {error}".split())


def check_hooks(algorithm: Algorithm, module: nn.Module, problem: Problem) -> None:
    """Refuse what a user's own algorithm declares or returns where it cannot work.

    Args:
        algorithm: The algorithm.
        module: What `Algorithm.build` returned.
        problem: What is learned.
    """
    cls = type(algorithm)
    if is_shipped(cls):
        return
    phases = algorithm.phases(problem)
    if isinstance(phases, Phase) or not all(isinstance(phase, Phase) for phase in phases):
        kind = type(phases).__name__
        raise UserError(f"{cls.__name__}.phases must return a list of Phase, got {kind}.")
    names = [name for name, _ in chain(module.named_parameters(), module.named_buffers())]
    chosen = {f"Phase.train of phase {n}": phase.train for n, phase in enumerate(phases, 1)}
    if algorithm.communicates:
        chosen["sends"] = tuple(algorithm.travelling(module))
    for field, patterns in chosen.items():
        if not any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
            raise UserError(
                f"{cls.__name__}, {field}: no tensor matches {', '.join(patterns)}; the network "
                f"has {', '.join(names)}."
            )


def code_of(names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the file of each algorithm that is the user's own, by name.

    Shipped ones, and those of a notebook or a prompt, are left out.

    Args:
        names: Names of algorithms, as `find` takes them.
    """
    digests = {}
    for name in names:
        cls = find(name)
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if not is_shipped(cls) and file is not None and Path(file).is_file():
            digests[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return digests


def check_code(digests: Mapping[str, str], place: Path) -> None:
    """Refuse to go on with algorithms whose files were edited since.

    Args:
        digests: What `code_of` returned at the beginning.
        place: Directory of what is to be continued.
    """
    now = code_of(digests)
    for name, digest in digests.items():
        if now.get(name, digest) != digest:
            raise UserError(
                f"{place}: the file of algorithm '{name}' was edited since this began, so its two "
                "parts would not be of one algorithm. Put the file back, or start again."
            )
