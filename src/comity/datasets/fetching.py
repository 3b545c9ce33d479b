"""Files of data sets that are fetched once, from the first of several addresses that has them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from comity.errors import UserError

_SECONDS = (10, 60)
"""Patience until a host accepts a connection, and between two pieces of a file."""


class NotFetchedError(Exception):
    """A file that none of some sources has, with one reason per source.

    Args:
        reasons: Texts that name source and fault.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = list(reasons)


class Remote(NamedTuple):
    """A file that is published at several addresses."""

    name: str
    """Name of the file."""
    sha256: str
    """Checksum of a whole copy; anything else is not accepted."""
    addresses: tuple[str, ...]
    """Addresses of the file, its authors' first."""


def fetch(file: Remote, directory: Path) -> Path:
    """Return a file in a directory, fetched unless it is there; whole and checked.

    Args:
        file: The file.
        directory: The directory, which is made if it is missing.

    Raises:
        NotFetchedError: No address has the file.
    """
    import pooch  # brings requests, which only fetching needs

    reasons = []
    for address in file.addresses:
        try:
            with _quiet(pooch.get_logger()):
                path = pooch.retrieve(
                    address,
                    known_hash=f"sha256:{file.sha256}",
                    fname=file.name,
                    path=directory,
                    downloader=pooch.HTTPDownloader(timeout=_SECONDS),
                )
            return Path(path)
        except (OSError, ValueError) as error:  # those of requests are OSErrors
            reasons.append(f"{address}: {_reason(error)}")
    raise NotFetchedError(reasons)


def report(title: str, progress: str) -> None:
    """Tell on standard error how fetching a data set goes."""
    print(f"{title}: {progress}", file=sys.stderr, flush=True)


def not_fetched(title: str, reasons: Sequence[str], advice: str) -> UserError:
    """Return the error for a data set that no source has.

    Args:
        title: Name of the data set.
        reasons: What was wrong with each source.
        advice: How to go on without fetching.
    """
    return UserError(f"data set {title}: could not be fetched ({'; '.join(reasons)}). {advice}")


def _reason(error: Exception) -> str:
    """Return a short text for what went wrong with one address."""
    import requests

    if isinstance(error, ValueError) and "hash" in str(error):
        return "its checksum is not the known one"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP status {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence a logger, which would report every address."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
