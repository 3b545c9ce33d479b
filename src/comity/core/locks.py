"""Locks of directories: one process at a time works in them."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from comity.errors import UserError

LOCK = ".lock"
_TRIES, _PAUSE = 3, 0.01  # seconds


class InUseError(UserError):
    """A directory in which another process is at work."""


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep other processes out of a directory.

    The lock is the kernel's, so it ends with the process, however that ends. The file says who
    holds it and is removed at the end; one that a killed process left is taken over.

    Args:
        directory: An existing directory.

    Raises:
        InUseError: Another process holds it; the message says which.
    """
    path = directory / LOCK
    handle = _locked(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)  # before the lock ends: nobody else's file is removed
        os.close(handle)


def holder_of(directory: Path) -> str | None:
    """Return the process that works in a directory, in words; None if none does.

    Args:
        directory: An existing directory.
    """
    try:
        handle = os.open(directory / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(handle)
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(handle)
    return None


def _locked(path: Path) -> int:
    """Return the open and locked file at a path, with this process in it."""
    tries = 0
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if tries < _TRIES:  # `holder_of` has it for a moment
                tries += 1
                os.close(handle)
                time.sleep(_PAUSE)
                continue
            holder = _holder(handle)
            os.close(handle)
            raise InUseError(
                f"{path.parent} is in use: {holder}. Wait until it is done, or end it first."
            ) from None
        except OSError as error:  # a file system without locks
            message = "%s cannot be locked (%s): let no second process work in it."
            logging.getLogger("comity").warning(message, path.parent, error.strerror)
        if _is_at(handle, path):
            break
        os.close(handle)  # its holder removed it just before the lock was free
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    entry = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(entry).encode(), 0)
    return handle


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open file is the one that a path leads to."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    """Return the process that holds a lock, in words."""
    try:
        values = json.loads(os.pread(handle, 4096, 0))
        process, host, since = values["process"], values["host"], values["since"]
        return f"process {process} on {host} has been at work in it since {since}"
    except (ValueError, KeyError, TypeError):  # not written yet
        return "another process has just begun to work in it"
