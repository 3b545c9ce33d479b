"""A Dask cluster: workers on this machine or on many, which do jobs or hold clients.

The only module that imports `distributed` (extra ``cluster``). Dask's processes unpickle what they
send each other, so everybody who reaches them is trusted: see docs/cluster.md.
"""

from __future__ import annotations

import gc
import logging
import platform
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Lock
from typing import Any, Self
from uuid import uuid4

import numpy as np
import torch

from comity.errors import StoppedError, UserError
from comity.version import __version__

PATIENCE = 120.0
"""Seconds for which a cluster may be without workers, and for which a job waits for a directory.

A file server frees the locks of a machine that died within this time: see docs/cluster.md.
"""
_CONNECT = 10.0  # seconds until a scheduler must have answered
_PAUSE = 0.02  # seconds between looks at jobs
_LOOK = 1.0  # seconds between looks at the list of workers
_PRELOAD = """import signal
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
"""  # in workers on this machine: the main process deals with Ctrl-C

Send = Callable[[Any], None]
"""Brings a value from a job to the process that waits for it."""
Job = Callable[[Any, Send], None]
"""What a worker does with one argument; a named function of a module."""


class LostWorkerError(StoppedError):
    """Loss of a worker with the clients on it; the run can go on from its checkpoint."""


class Cluster:
    """Workers of a Dask cluster; connected to when first used, and left by ``with``.

    Args:
        address: ``tcp://HOST:PORT`` or ``tls://HOST:PORT`` of a scheduler, or ``local:N`` for N
            workers on this machine that last as long as the object.
    """

    def __init__(self, address: str) -> None:
        local = re.fullmatch(r"local:([1-9]\d*)", str(address))
        if local is None and not re.fullmatch(r"(tcp|tls)://\S+:\d+", str(address)):
            raise UserError(
                f"cluster = {address!r}: must be a scheduler's address, such as "
                "tcp://192.0.2.1:8786 or tls://192.0.2.1:8786, or local:4 for four workers here."
            )
        if find_spec("distributed") is None:
            raise UserError('cluster: it needs one package more: pip install "comity[cluster]".')
        self.address = address
        self._size = 0 if local is None else int(local[1])
        self._client: Any = None
        self._own: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self._client, self._own):
            if part is not None:
                part.close()
        self._client = self._own = None

    @property
    def client(self) -> Any:
        """The connection, a `distributed.Client`."""
        if self._client is None:
            self._client = self._connected()
        return self._client

    def _connected(self) -> Any:
        from distributed import Client, LocalCluster

        if self._size:
            self._own = LocalCluster(
                n_workers=self._size,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,  # as of the embedded engine's processes
                dashboard_address="127.0.0.1:0",
                security=True,  # temporary certificates: other users of the machine stay out
                silence_logs=logging.CRITICAL,
                preload=[_PRELOAD],
            )
        place = self._own or self.address
        try:
            return Client(place, timeout=_CONNECT, set_as_default=False, direct_to_workers=True)
        except OSError as error:
            cause = str(error).partition("\n")[0]
            fault: Exception = StoppedError(
                f"cluster {self.address}: no scheduler answers there ({cause})"
            )
        except (TypeError, ValueError) as error:  # no certificates, or damaged ones
            fault = UserError(
                f"cluster {self.address}: {error}. Dask takes certificates from its own "
                "configuration: see docs/cluster.md."
            )
        gc.collect()  # a half-made client stops its loop when it is collected: not inside another's
        raise fault

    def workers(self) -> list[str]:
        """Return the addresses of the workers; waits until there is one."""
        deadline = time.monotonic() + PATIENCE
        while not (addresses := self._addresses()):
            if time.monotonic() > deadline:
                raise StoppedError(f"cluster {self.address}: it has no workers")
            time.sleep(_LOOK)
        return addresses

    def _addresses(self) -> list[str]:
        try:
            return sorted(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise StoppedError(f"cluster {self.address}: its scheduler is gone ({error})") from None

    # -- jobs ------------------------------------------------------------------------------

    def do(self, job: Job, tasks: Mapping[str, Any], receive: Send) -> None:
        """Do a job with several arguments, on as many workers as there are; return after the last.

        The job of a worker that is lost begins again on another one, until the scheduler calls it
        bad (``distributed.scheduler.allowed-failures``, 3 by default).

        Args:
            job: Called in a worker with an argument and a function that sends values. That function
                raises an exception once nobody waits for the job any more.
            tasks: Arguments by name, for messages.
            receive: Called in this process with each value that was sent, in order per job.
        """
        topic, values = f"comity-{uuid4().hex}", SimpleQueue[bytes]()
        self.client.subscribe_topic(topic, lambda event: values.put(event[1]))
        pending = {
            name: self.client.submit(
                _do, _sealed((job, argument)), topic, key=f"{name}-{uuid4().hex}", pure=False
            )
            for name, argument in tasks.items()
        }
        futures, looked = list(pending.values()), time.monotonic()
        try:
            while pending:
                time.sleep(_PAUSE)
                done = {name: future for name, future in pending.items() if future.done()}
                while not values.empty():
                    receive(_unpickled(values.get()))
                for name, future in done.items():
                    self._check(name, future)
                    del pending[name]
                if pending and time.monotonic() > looked + _LOOK:
                    self.workers()
                    looked = time.monotonic()
        finally:
            with suppress(OSError, TimeoutError):  # of a scheduler that is gone
                self.client.unsubscribe_topic(topic)
                if pending:
                    self.client.cancel(futures, force=True)

    def _check(self, name: str, future: Any) -> None:
        """Raise the error with which a job ended, if it did."""
        from distributed import CancelledError, KilledWorker

        try:
            future.result()
        except KilledWorker as error:
            raise StoppedError(
                f"{name}: {error.allowed_failures + 1} workers were lost on it in turn, perhaps "
                "for want of memory"
            ) from None
        except CancelledError:
            raise StoppedError(f"cluster {self.address}: its scheduler is gone") from None
        except Exception as error:
            raise _without_comity(error) from None

    # -- hosts -----------------------------------------------------------------------------

    def hosts(self, make: Callable[..., Callable[..., Any]], *shares: Sequence[Any]) -> list[Host]:
        """Return one host per share, each on a worker of its own.

        Args:
            make: Called in a worker with a share's values; returns what answers questions there. A
                named function or class of a module.
            *shares: Arguments of ``make``, at most one share per worker.
        """
        placed = list(zip(self.workers(), shares, strict=False))
        if len(placed) < len(shares):
            raise LostWorkerError(f"cluster {self.address}: a worker is lost")
        futures = {
            address: self.client.submit(
                _Answers,
                _sealed((make, share)),
                actor=True,
                workers=[address],
                key=f"comity-clients-{uuid4().hex}",
                pure=False,
            )
            for address, share in placed
        }
        while waiting := [a for a, future in futures.items() if future.status == "pending"]:
            if gone := set(waiting) - set(self._addresses()):
                raise LostWorkerError(f"worker {min(gone)} is lost")
            time.sleep(_PAUSE)
        return [self._host(address, future) for address, future in futures.items()]

    def _host(self, address: str, future: Any) -> Host:
        """Return the host of an actor that was made, or say why it could not be."""
        from distributed import KilledWorker

        with self.client.as_current():
            try:
                return Host(self.client, address, future, future.result())
            except (KilledWorker, RuntimeError) as error:
                if _without_comity(error) is error:
                    raise LostWorkerError(f"worker {address} is lost") from None
                raise _without_comity(error) from None
            except Exception as error:
                raise _without_comity(error) from None


class Host:
    """Holder of clients on a worker, which answers questions.

    Args:
        client: The connection to the cluster.
        address: Address of the worker.
        future: The actor as a result, which holds it there.
        actor: The actor, of class `_Answers`.
    """

    def __init__(self, client: Any, address: str, future: Any, actor: Any) -> None:
        self.address = address
        self._client, self._future, self._actor = client, future, actor

    def ask(self, *question: Any) -> Callable[[], Any]:
        """Send a question; return the function that waits for its answer, or raises its error."""
        with self._reached(), self._client.as_current():
            reply = self._actor.answer(_pickled(question))

        def wait() -> Any:
            with self._reached():
                content = reply.result()
            answer = _unpickled(content)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return wait

    def release(self) -> None:
        """Let the worker forget what it holds."""
        self._future.release()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn every error of the connection into one; those of clients come as answers."""
        try:
            yield
        except Exception:
            raise LostWorkerError(f"worker {self.address} is lost") from None


def _without_comity(error: Exception) -> Exception:
    """Return an error, or if workers cannot even load Comity's code, the sentence that says so."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ImportError) and (cause.name or "").partition(".")[0] == "comity":
            return UserError(
                f"cluster: workers cannot import Comity as it is here ({cause}). Install comity "
                f"{__version__} where they run."
            )
        cause = cause.__cause__ or cause.__context__
    return error


# -- in a worker ---------------------------------------------------------------------------

_alone = Lock()  # torch's threads and generators belong to the process


class _Answers:
    """An actor: calls what was sent to it with each question, one at a time."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._answer: Callable[..., Any] | None = None

    def answer(self, question: bytes) -> bytes:
        try:
            with _alone:
                if self._answer is None:
                    make, share = _opened(self._message)
                    self._answer, self._message = make(*share), b""
                answer = self._answer(*_unpickled(question))
        except Exception as error:
            answer = error
        return _pickled(answer)


def _do(message: bytes, topic: str) -> None:
    """Do a job."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def send(value: Any) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state != "executing" or "clos" in worker.status.name:
            raise StoppedError("nobody waits for this job any more")
        worker.log_event(topic, _pickled(value))

    with _alone:
        job, argument = _opened(message)
        job(argument, send)


# -- messages ------------------------------------------------------------------------------


def _sealed(values: Any) -> bytes:
    """Return what a worker needs, with the versions that it must have."""
    return _pickled((_versions(), _pickled(values)))


def _opened(message: bytes) -> Any:
    """Return what a worker was sent, if it has the same versions."""
    theirs, values = _unpickled(message)
    here = f"worker on {socket.gethostname()}"
    for name, version in _versions().items():
        if theirs[name] != version:
            raise UserError(
                f"cluster: a {here} has {name} {version}, not {theirs[name]}, so its results might "
                "differ. Install the same versions everywhere."
            )
    try:
        return _unpickled(values)
    except ImportError as error:
        raise UserError(
            f"cluster: a {here} cannot import what it is sent ({error}). Install your own modules "
            "where workers run."
        ) from None


def _versions() -> dict[str, str]:
    """Return the versions that decide bits, by name."""
    python = ".".join(platform.python_version_tuple()[:2])
    numerics = {"torch": torch.__version__, "numpy": np.__version__}
    return {"comity": __version__, "Python": python, **numerics}


def _pickled(values: Any) -> bytes:
    """Return values as bytes; Dask's pickle also takes functions of a script.

    Arrays are copied, as they are by a pipe: the layout of Dask's own messages plays no part.
    """
    from distributed.protocol.pickle import dumps

    content: bytes = dumps(values)
    return content


def _unpickled(content: bytes) -> Any:
    from distributed.protocol.pickle import loads

    return loads(content)
