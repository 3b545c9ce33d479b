"""Transport by files: messages in directories, which anything may carry: a share, rsync, a stick.

``to-SITE/`` holds the message that waits for a site, ``from-SITE/`` its answers. A file is whole or
absent: it is written under another name and renamed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from comity.core.storage import write_whole
from comity.federation.transports.base import Arrived
from comity.federation.wire import digest_of

_SUFFIX = ".cmty"
_POLL = 0.1  # seconds between looks
_LATELY = 60.0  # seconds since a site's last file


def _messages(directory: Path) -> list[Path]:
    """Return the messages in a directory, oldest first."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if path.suffix == _SUFFIX]
    return sorted(found, key=lambda path: (path.stat().st_mtime, path.name))


def _write(directory: Path, message: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{digest_of(message)[:32]}{_SUFFIX}"
    write_whole(path, message)
    return path


class FilesServerTransport:
    """The server's end.

    Args:
        directory: The directory that server and sites share.
        sites: Names of the sites.
    """

    def __init__(self, directory: Path, sites: Collection[str]) -> None:
        self._directory = directory
        self._seen = dict.fromkeys(sites, float("-inf"))

    def online(self) -> frozenset[str]:
        recent = time.monotonic() - _LATELY
        return frozenset(site for site, seen in self._seen.items() if seen > recent)

    def exchange(
        self, messages: Mapping[str, bytes], patience: float, arrived: Arrived
    ) -> frozenset[str]:
        waiting = {site: _write(self._to(site), message) for site, message in messages.items()}
        for site, kept in waiting.items():
            for path in _messages(self._to(site)):
                if path != kept:  # of a server that was killed
                    path.unlink(missing_ok=True)
        taken: set[str] = set()
        deadline = time.monotonic() + patience
        while waiting and time.monotonic() < deadline:
            for site in list(waiting):
                for path in _messages(self._directory / f"from-{site}"):
                    answer = path.read_bytes()
                    path.unlink()
                    self._seen[site] = time.monotonic()
                    if site in waiting and arrived(site, answer):
                        taken.add(site)
                        waiting.pop(site).unlink(missing_ok=True)
            if waiting:
                time.sleep(min(_POLL, max(0.0, deadline - time.monotonic())))
        for path in waiting.values():
            path.unlink(missing_ok=True)
        return frozenset(taken)

    def _to(self, site: str) -> Path:
        return self._directory / f"to-{site}"

    def close(self) -> None:
        pass


class FilesSiteTransport:
    """A site's end.

    Args:
        directory: The directory that server and site share.
        site: Name of the site.
    """

    def __init__(self, directory: Path, site: str) -> None:
        self._inbox, self._outbox = directory / f"to-{site}", directory / f"from-{site}"
        self._closed = False

    def serve(self, answer: Callable[[bytes], bytes], ended: Callable[[], bool]) -> None:
        answered: dict[str, Path] = {}
        while not ended() and not self._closed:
            for path in _messages(self._inbox):
                if path.name in answered and answered[path.name].exists():
                    continue
                try:
                    message = path.read_bytes()
                except FileNotFoundError:  # withdrawn in between
                    continue
                answered[path.name] = _write(self._outbox, answer(message))
            time.sleep(_POLL)

    def close(self) -> None:
        self._closed = True
