"""Trained agents as files, which other runs take.

A setting names such a file with its fingerprint behind a ``#``, once it has been looked at: a run
that is repeated with another file under the same name is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from comity.errors import UserError
from comity.files import Values, load_values, save_values

KIND = "pfedrlla agent"
_MAKE = "Make one with: comity pretrain pfedrlla PROBLEM --out agent.safetensors"


def named(text: str) -> str:
    """The setting with the file's whole path and fingerprint; nothing stays nothing."""
    if not text:
        return text
    name, _, wanted = text.partition("#")
    path = Path(name).absolute()
    if not path.is_file():
        raise UserError(f"pfedrlla.agent = {name!r}: there is no such file. {_MAKE}")
    found = _fingerprint(path, path.stat().st_mtime_ns)
    if wanted and wanted != found:
        raise UserError(
            f"pfedrlla.agent: {path} is not the file that it was ({found} instead of {wanted}). "
            f"Put the old one back, or name it without '#…'."
        )
    load(text)
    return f"{path}#{found}"


@lru_cache(maxsize=8)
def _fingerprint(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def load(text: str) -> tuple[Values, dict[str, Any]]:
    """The arrays of a named file, and what it says of itself."""
    path = Path(text.partition("#")[0])
    arrays, header = load_values(path)
    if header.get("kind") != KIND:
        raise UserError(f"pfedrlla.agent: {path} holds no agent. {_MAKE}")
    return arrays, header


def save(path: Path, arrays: Values, header: Mapping[str, Any]) -> None:
    """Write an agent for other runs."""
    save_values(path, arrays, {**header, "kind": KIND})
