"""Runs and searches on a cluster: whole ones as jobs, or the clients of one over many workers.

The kernel's lock of a directory decides who writes into it. It ends with the process that holds
it, so a job can begin again elsewhere once its worker is dead, and not while it is alive, even if
the scheduler has lost it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

from comity.configuration import Configuration
from comity.core.locks import LOCK, InUseError, holder_of
from comity.errors import StoppedError, UserError
from comity.federation.cluster import PATIENCE, Cluster, LostWorkerError, Send
from comity.federation.engines.chunked import ChunkedEngine
from comity.federation.engines.cluster import ClusterEngine
from comity.federation.engines.embedded import EmbeddedEngine
from comity.problems import Problem, register
from comity.runs.base import CHECKPOINT, Directory
from comity.runs.events import Event, Notify, StartEvent

Workers = int | Cluster
"""Who does the work: a number of processes on this machine, or a cluster."""
Work = Callable[[Path, Notify], None]
"""Brings the run or search in a directory to its end; a named function of a module.

Its arguments are the directory and what to call with each event.
"""

MOST_LOSSES = 3
"""How often a worker may be lost before there is a new checkpoint."""
_PAUSE = 1.0  # seconds until a directory in use is tried again
_log = logging.getLogger("comity")


def check_workers(workers: Workers) -> None:
    """Refuse a number of processes below one."""
    if isinstance(workers, int) and workers < 1:
        raise UserError(f"workers = {workers}: must be at least 1.")


# -- the clients of one run over many workers ----------------------------------------------


def engine_of(configuration: Configuration, workers: Workers) -> ChunkedEngine:
    """Return the engine that holds the clients of a configuration.

    Args:
        configuration: The run's configuration.
        workers: Processes that share the clients, or a cluster.
    """
    if isinstance(workers, Cluster):
        return ClusterEngine(configuration, workers)
    return EmbeddedEngine(configuration, workers)


def persevere(directory: Directory, attempt: Callable[[], None]) -> None:
    """Attempt work until no worker is lost in it; each attempt goes on from the last checkpoint.

    Args:
        directory: The run or search.
        attempt: Brings it to its end.

    Raises:
        StoppedError: `MOST_LOSSES` workers were lost without a checkpoint between them, and one
            more.
    """
    losses, known = 0, _mark(directory)
    while True:
        try:
            return attempt()
        except LostWorkerError as error:
            advanced = _mark(directory) != known
            losses, known = 1 if advanced else losses + 1, _mark(directory)
            if losses > MOST_LOSSES:
                raise StoppedError(
                    f"{directory.path}: {error}, the {losses}th since its last checkpoint"
                ) from None
            place = "its last checkpoint" if known else "its beginning"
            _log.warning("%s: %s; it goes on from %s on others", directory.path, error, place)


def _mark(directory: Directory) -> tuple[int, int] | None:
    """Return what changes with each new checkpoint; None: there is none."""
    try:
        status = (directory.path / CHECKPOINT).stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_ino


# -- whole runs as jobs --------------------------------------------------------------------


class _Assignment(NamedTuple):
    """Everything that a worker needs for a job."""

    directory: Path
    """Working directory of the main process."""
    path: Path
    """Directory of the run or search, perhaps relative to it."""
    work: Work
    problem: Problem


def spread(
    paths: Sequence[Path], work: Work, problem: Problem, cluster: Cluster, notify: Notify
) -> None:
    """Bring runs or searches to their ends on the workers of a cluster.

    A job whose worker is lost goes on elsewhere from its checkpoint.

    Args:
        paths: Their directories, on a file system that all workers share. This process holds the
            lock of a directory above them, by which workers recognise it.
        work: Brings one of them to its end.
        problem: Their problem.
        cluster: Where the workers are.
        notify: Called in this process with each event.
    """
    started: set[str] = set()

    def receive(event: Event) -> None:
        if isinstance(event, StartEvent):
            if event.run in started:
                _log.warning(
                    "%s: its worker was lost; it goes on after round %d on another",
                    event.run,
                    event.round,
                )
            started.add(event.run)
        notify(event)

    here = Path.cwd()
    tasks = {str(path): _Assignment(here, path, work, problem) for path in paths}
    cluster.do(_execute, tasks, receive)


def _execute(assignment: _Assignment, send: Send) -> None:
    """Execute one job, in a worker."""
    directory, path, work, problem = assignment
    if not directory.is_dir():
        raise _unseen(directory)
    with chdir(directory):
        _check_sight(path.absolute())
        register(problem)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return work(path, send)
            except InUseError:  # the lost worker that had the job may live a little longer
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)


def _check_sight(path: Path) -> None:
    """Refuse a directory that is not the main process's own, or whose locks do not reach here."""
    above = next((parent for parent in path.parents if (parent / LOCK).is_file()), None)
    if above is None or not path.is_dir():
        raise _unseen(path)
    if holder_of(above) is None:
        raise UserError(
            f"cluster: {_here()} does not see the lock of {above}, so two workers might write into "
            "one run. Use a file system whose locks hold between machines: see docs/cluster.md."
        )


def _unseen(path: Path) -> UserError:
    return UserError(
        f"cluster: {_here()} does not see {path}. The directory must be on a file system that this "
        "machine and all workers share, under the same path: choose --out there."
    )


def _here() -> str:
    return f"worker process {os.getpid()} on {socket.gethostname()}"
