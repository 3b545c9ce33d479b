"""Transport by files: messages in directories, which anything may carry: a share, a link, a stick.

``to-SITE/`` holds the question that waits for a site, ``from-SITE/`` the site's answer, which has
the name of its question. We write a file under another name and rename it, so it is whole or
absent. A carrier may be less careful: a file that is not whole yet counts as absent, on both sides.

Nothing is taken away before it is certain that it is not needed: a question stays until it is
answered or withdrawn, an answer until the server asks something else. So a server or site that was
killed finds what it had, and a carrier may copy, move, repeat, delay or reorder files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from comity.core.storage import write_whole
from comity.errors import UserError
from comity.federation.transports.base import Arrived
from comity.federation.wire import digest_of, is_whole, round_of, sequence_of

_NAME = re.compile(r"[0-9a-f]{32}\.cmty")
_POLL = 0.1  # seconds between looks
_LATELY = 60.0  # seconds since a site's last file


class _Box:
    """A directory that the other side fills."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._marks: dict[str, tuple[int, int, int]] = {}

    def news(self) -> list[tuple[str, bytes]]:
        """Return the messages that are new or changed since the last look, in their order."""
        messages = []
        for path in _ours(self._directory):
            try:
                status = path.stat()
            except OSError:  # withdrawn in between
                continue
            mark = status.st_mtime_ns, status.st_size, status.st_ino
            if self._marks.get(path.name) != mark and is_whole(content := _read(path)):
                self._marks[path.name] = mark
                messages.append((path.name, content))
        return sorted(messages, key=lambda item: (round_of(item[1]), sequence_of(item[1])))


def _ours(directory: Path) -> Iterator[Path]:
    """Yield the files of messages in a directory; others are somebody else's."""
    if directory.is_dir():
        paths = [path for path in directory.iterdir() if _NAME.fullmatch(path.name)]
        yield from (path for path in paths if path.is_file())


def _read(path: Path) -> bytes:
    """Return the content of a file, nothing if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _write(directory: Path, name: str, message: bytes) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(directory / name, message)
    except OSError as error:
        raise UserError(
            f"cannot write to {directory}: {error.strerror}; messages by files need a directory "
            "that can be written."
        ) from None


def _keep_only(directory: Path, names: Collection[str]) -> None:
    """Remove messages with other names, where we may; they do no harm."""
    for path in _ours(directory):
        if path.name not in names:
            with suppress(OSError):
                path.unlink()


class FilesServerTransport:
    """The server's end.

    Args:
        directory: The directory with the boxes of all sites.
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
        waiting = {site: f"{digest_of(message)[:32]}.cmty" for site, message in messages.items()}
        boxes = {site: _Box(self._from(site)) for site in waiting}
        for site, name in waiting.items():
            _keep_only(self._from(site), [name])  # answers to earlier questions
            _write(self._to(site), name, messages[site])
            _keep_only(self._to(site), [name])  # questions of a server that was killed
        taken: set[str] = set()
        deadline = time.monotonic() + patience
        while waiting and time.monotonic() < deadline:
            for site, question in list(waiting.items()):
                for name, answer in boxes[site].news():
                    self._seen[site] = time.monotonic()
                    if name == question and arrived(site, answer):
                        taken.add(site)
                        self._withdraw(site, waiting.pop(site))
            if waiting:
                time.sleep(min(_POLL, max(0.0, deadline - time.monotonic())))
        for site, name in waiting.items():
            if (damaged := _read(self._from(site) / name)) and not is_whole(damaged):
                arrived(site, damaged)  # which names the fault
            self._withdraw(site, name)
        return frozenset(taken)

    def _withdraw(self, site: str, name: str) -> None:
        (self._to(site) / name).unlink(missing_ok=True)

    def _to(self, site: str) -> Path:
        return self._directory / f"to-{site}"

    def _from(self, site: str) -> Path:
        return self._directory / f"from-{site}"

    def close(self) -> None:
        pass


class FilesSiteTransport:
    """A site's end.

    Args:
        directory: The directory with the site's boxes.
        site: Name of the site.
    """

    def __init__(self, directory: Path, site: str) -> None:
        self._inbox, self._outbox = directory / f"to-{site}", directory / f"from-{site}"
        self._closed = False

    def serve(self, answer: Callable[[bytes], bytes], ended: Callable[[], bool]) -> None:
        box = _Box(self._inbox)
        while not ended() and not self._closed:
            for name, question in box.news():
                _write(self._outbox, name, answer(question))
                _keep_only(self._outbox, {name, *(path.name for path in _ours(self._inbox))})
            time.sleep(_POLL)

    def close(self) -> None:
        self._closed = True
