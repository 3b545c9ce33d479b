"""Files that are whole or absent (arrays with plain values, JSON, bytes); named arrays."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from comity.core.typing import AnyArray, IntArray, NamedArrays
from comity.errors import UserError

T = TypeVar("T")
HEADER, CHECKSUM = "comity", "sha256"
_DIGITS = 64  # of a checksum
_MANY = 16  # files from which on one call brings all of them to the disk


def save_values(path: Path, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
    """Write arrays and plain values into one safetensors file, whole or not at all.

    The header also has a checksum of everything else in the file.

    Args:
        path: The file; an old one is replaced in one step.
        tensors: Arrays by name.
        values: Whatever JSON holds; kept in the file's metadata.
    """
    write_whole(path, content_of(tensors, values))


def content_of(tensors: NamedArrays, values: Mapping[str, Any]) -> bytes:
    """Return the content of a file with arrays and plain values, as of `save_values`."""
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    header = {**values, CHECKSUM: _checksum(arrays, values)}
    # one entry of metadata: safetensors writes several in any order
    return save(arrays, metadata={HEADER: json.dumps(header)})


def load_values(path: Path) -> tuple[NamedArrays, dict[str, Any]]:
    """Return the arrays and plain values that `save_values` wrote.

    Files of versions up to 0.6.0 have no checksum, and are taken as they are.

    Raises:
        UserError: The file is missing, damaged or of another kind.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            values = json.loads((file.metadata() or {})[HEADER])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if not isinstance(values, dict):
            raise ValueError("its header is no table")
        recorded = values.pop(CHECKSUM, None)
        # a checksum under another name is one whose name was damaged
        lost = recorded is None and any(_is_checksum(value) for value in values.values())
        if lost or (recorded is not None and recorded != _checksum(arrays, values)):
            raise ValueError("its content does not have its checksum")
        return arrays, values
    except KeyError as error:
        raise UserError(f"{path} is damaged or not ours: it has no {error}.") from None
    except (SafetensorError, OSError, TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged or not ours: {error}.") from None


def _checksum(arrays: NamedArrays, values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of arrays, with their names, types and shapes, and of values."""
    digest = hashlib.sha256(json.dumps(dict(values)).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def _is_checksum(value: object) -> bool:
    return isinstance(value, str) and len(value) == _DIGITS


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that the old or the new content is there at any moment, never a part.

    A link in its place is replaced, not followed. An `OSError` names the file.
    """
    write_together([(path, content)])


def write_together(contents: Iterable[tuple[Path, bytes]]) -> None:
    """Write files as `write_whole` does, and wait for the disk only once where they are many.

    All are on the disk before the first takes its place.

    Args:
        contents: Files of one directory and their contents, asked for one by one.
    """
    parts: dict[Path, Path] = {}
    try:
        for path, content in contents:
            # two processes that draw the same report do not write into each other's part
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            parts[part] = path
            with naming(path):
                part.unlink(missing_ok=True)
                with part.open("xb") as file:
                    file.write(content)
        _sync_files(parts)
        for part, path in parts.items():
            with naming(path):
                part.replace(path)
    except OSError:
        for part in parts:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        raise
    for directory in {path.parent for path in parts.values()}:
        _sync_directory(directory)


def _sync_files(parts: Mapping[Path, Path]) -> None:
    """Return once written files are on the disk: many by one call for their file system.

    Args:
        parts: The files, and the names that they are to have, for errors.
    """
    many = len(parts) >= _MANY
    everything = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if many else None
    if everything is None:  # few, or not on Linux
        for part, path in parts.items():
            with naming(path), part.open("rb") as file:
                os.fsync(file.fileno())
        return
    part, path = next(iter(parts.items()))
    with naming(path), part.open("rb") as file:
        if everything(file.fileno()) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, which is created if need be; a link is refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with naming(path), os.fdopen(os.open(path, flags, 0o666), "ab") as file:
        file.write(content)


def sync(path: Path) -> None:
    """Return once the content of a file is on the disk; a missing one is no fault."""
    with suppress(FileNotFoundError), naming(path), path.open("rb") as file:
        os.fsync(file.fileno())


def own_directory(path: Path) -> Path:
    """Return a directory inside another one, created if need be; a link is refused."""
    with naming(path):
        path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise UserError(f"{path} is a link; files are not written through links. Remove it.")
    return path


def is_leftover(path: Path) -> bool:
    """Return whether a file is the part of one that a killed process did not finish."""
    return path.suffix == ".part" or path.name.startswith(".tmp")


def remove_leftovers(*directories: Path) -> None:
    """Remove what killed processes left unfinished."""
    for directory in directories:
        for path in directory.iterdir() if directory.is_dir() else ():
            if is_leftover(path) and (path.is_file() or path.is_symlink()):
                path.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an `OSError` inside the name of the file that it is about."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from None


def _sync_directory(path: Path) -> None:
    """Bring a directory's new entries to the disk, where its file system knows how."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def strip_prefix(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return values under a prefix, without it: ``{"a.x": 1, "b": 2}, "a."`` -> ``{"x": 1}``."""
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def add_prefix(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the values with a prefix before each name: ``{"x": 1}, "a."`` -> ``{"a.x": 1}``."""
    return {f"{prefix}{k}": v for k, v in values.items()}


def with_rows(array: AnyArray, rows: IntArray, values: AnyArray) -> AnyArray:
    """Return an array with some rows replaced; other axes grow to the larger of both.

    Replay memories and running episodes are saved only as far as they are filled.

    Args:
        array: One row per client.
        rows: Rows to replace.
        values: The new rows.
    """
    longest = np.maximum(array.shape[1:], values.shape[1:]).astype(np.int64)
    merged = np.zeros((len(array), *longest), dtype=array.dtype)
    merged[tuple(slice(size) for size in array.shape)] = array
    merged[rows] = 0
    ends: list[Any] = [slice(size) for size in values.shape[1:]]
    merged[(rows, *ends)] = values
    return merged
