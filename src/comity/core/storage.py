"""Files that are whole or absent (arrays with plain values, JSON, bytes); prefixes of names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from comity.core.typing import NamedArrays
from comity.errors import UserError

T = TypeVar("T")


def save_values(path: Path, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
    """Write arrays and plain values into one safetensors file, whole or not at all.

    Args:
        path: The file; an old one is replaced in one step.
        tensors: Arrays by name.
        values: Whatever JSON holds; kept in the file's metadata.
    """
    part = path.with_suffix(".part")
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(arrays, part, metadata={"comity": json.dumps(dict(values))})
    _commit(part, path)


def load_values(path: Path) -> tuple[NamedArrays, dict[str, Any]]:
    """Return the arrays and plain values that `save_values` wrote.

    Raises:
        UserError: The file is missing, damaged or of another kind.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            values = json.loads((file.metadata() or {})["comity"])
            return {name: file.get_tensor(name) for name in file.keys()}, values  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged or not ours: {error}.") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that the old or the new content is there at any moment, never a part."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_bytes(content)
    _commit(part, path)


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return plain values as the content of a JSON file."""
    return (json.dumps(value, indent=2) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file.

    Raises:
        UserError: The file is missing or damaged.
    """
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}.") from None


def _commit(part: Path, path: Path) -> None:
    """Move a finished file to its place, once its content is on the disk."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def strip_prefix(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return values under a prefix, without it: ``{"a.x": 1, "b": 2}, "a."`` -> ``{"x": 1}``."""
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def add_prefix(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the values with a prefix before each name: ``{"x": 1}, "a."`` -> ``{"a.x": 1}``."""
    return {f"{prefix}{k}": v for k, v in values.items()}
