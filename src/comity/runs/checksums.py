"""JSON files of finished work, and the checksums by which damage to them is found.

``checksums.json`` has the SHA-256 of the files beside it. It is written before the results, whose
presence marks the end, and has no times: equal runs have equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from comity.core.storage import write_whole
from comity.errors import UserError

CHECKSUMS = "checksums.json"


def save_sealed(path: Path, results: Mapping[str, Any], others: Iterable[str] = ()) -> None:
    """Write results, after the checksums of them and of files beside them.

    Args:
        path: The file of the results.
        results: Its content.
        others: Names of files in the same directory; those that do not exist are left out.
    """
    content = to_json(results, path)
    files = {name: path.parent / name for name in others}
    sums = {name: _sum(file.read_bytes()) for name, file in files.items() if file.is_file()}
    sums[path.name] = _sum(content)
    write_whole(path.parent / CHECKSUMS, to_json(sums, path.parent / CHECKSUMS))
    write_whole(path, content)


def verify(directory: Path) -> None:
    """Refuse finished work of which a file has changed since its checksum was taken.

    Versions up to 0.6.0 wrote no checksums.
    """
    sums = directory / CHECKSUMS
    for name, expected in read_json(sums).items() if sums.is_file() else ():
        path = directory / Path(name).name
        try:
            changed = _sum(path.read_bytes()) != expected
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from None
        if changed:
            raise UserError(
                f"{path} is damaged: it is not what was written when the work was finished (its "
                f"SHA-256 is not that in {CHECKSUMS}). Put the old file back, or do the work again."
            )


def read_results(path: Path, needed: Sequence[str]) -> dict[str, Any]:
    """Return the results of finished work, once the files beside them are verified.

    Args:
        path: The file of the results, whose presence marks the end.
        needed: Names that the results must have.
    """
    if not path.is_file():
        place = path.parent
        raise UserError(f"{place} is not finished. Go on with: comity resume {place}")
    verify(path.parent)
    return read_json(path, needed)


def read_json(path: Path, needed: Sequence[str] = ()) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: The file.
        needed: Names that the object must have.
    """
    try:
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict):
            raise ValueError(f"a {type(value).__name__} instead of an object")
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}.") from None
    missing = [name for name in needed if name not in value]
    if missing:
        raise UserError(f"{path} is damaged: it has no {', '.join(missing)}.")
    return value


def to_json(value: Mapping[str, Any], path: Path) -> bytes:
    """Return the bytes of a JSON file, which has no NaN.

    Args:
        value: The content.
        path: The file, for messages.
    """
    try:
        return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
    except ValueError:
        raise UserError(
            f"{path}: a value is not a finite number: {_not_finite(value)}. Nothing was written."
        ) from None


def _not_finite(value: Any, name: str = "") -> str:
    """Return the name of the first number that is not finite, as ``metrics.hypervolume``."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    elif isinstance(value, float) and value - value != 0:
        return name
    inner = (_not_finite(part, f"{name}.{key}".lstrip(".")) for key, part in parts)
    return next((text for text in inner if text), "")


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
