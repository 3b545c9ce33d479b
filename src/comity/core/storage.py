"""Files that are whole or absent: arrays with plain values beside them, and bytes."""

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
    """Arrays and plain values in one safetensors file, whole or not at all."""
    part = path.with_suffix(".part")
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(arrays, part, metadata={"comity": json.dumps(dict(values))})
    _commit(part, path)


def load_values(path: Path) -> tuple[NamedArrays, dict[str, Any]]:
    """What `save_values` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            values = json.loads((file.metadata() or {})["comity"])
            return {name: file.get_tensor(name) for name in file.keys()}, values  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged or not ours: {error}.") from None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is either the old one or the new one, never half of either."""
    part = path.with_suffix(path.suffix + ".part")
    part.write_bytes(content)
    _commit(part, path)


def _commit(part: Path, path: Path) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)


def strip_prefix(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the values whose names begin with ``prefix``, under the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}
