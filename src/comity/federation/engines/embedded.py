"""The embedded engine: all clients on this machine, in this process and others beside it."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from multiprocessing.connection import Connection
from typing import Any

from comity.configuration import Configuration
from comity.core.devices import placed
from comity.core.threads import limited
from comity.errors import StoppedError, UserError
from comity.federation.engines.chunked import Calls, ChunkedEngine, Chunks, Share, dealt
from comity.problems import Problem, register

_BEGIN = "begin"


class EmbeddedEngine(ChunkedEngine):
    """All clients on this machine.

    The first worker's chunks run in this process, those of the others in processes of their own.

    Args:
        configuration: The run's configuration; ``chunk`` clients form one fleet.
        workers: Processes that share the chunks.
    """

    def __init__(self, configuration: Configuration, workers: int = 1) -> None:
        self._workers = workers
        self._remote: list[_Process] = []
        super().__init__(configuration)

    def _deal(self, configuration: Configuration, chunks: list[tuple[int, ...]]) -> None:
        workers = max(1, min(self._workers, len(chunks)))
        while len(self._remote) < workers - 1:
            self._remote.append(_Process(configuration))
        local, *remote = dealt(chunks, len(self._remote) + 1)
        for process, share in zip(self._remote, remote, strict=True):
            process.begin(configuration, share)
        self._local = Share(configuration, local)

    def close(self) -> None:
        """End the other processes."""
        for process in self._remote:
            process.stop()

    def _call(self, name: str, calls: Calls) -> dict[int, Any]:
        for process in self._remote:
            process.send(name, calls)
        results = self._local.call(name, calls)
        for process in self._remote:
            results.update(process.receive())
        return results


class _Process:
    """The chunks of another process."""

    def __init__(self, configuration: Configuration) -> None:
        context = multiprocessing.get_context("spawn")
        self._numbers: set[int] = set()
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_serve,
            args=(other, configuration.threads, configuration.device, configuration.get_problem()),
            daemon=True,
        )
        try:
            self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UserError(
                f"problem {configuration.problem_name}: its parts cannot be sent to a process "
                f"({error}). Use named functions of a module, or workers = 1."
            ) from None
        other.close()

    def begin(self, configuration: Configuration, chunks: Chunks) -> None:
        self._numbers = set(chunks)
        self._send(_BEGIN, (configuration, chunks))

    def send(self, name: str, calls: Calls) -> None:
        self._send(name, {n: call for n, call in calls.items() if n in self._numbers})

    def _send(self, name: str, calls: object) -> None:
        try:
            self._pipe.send((name, calls))
        except OSError:
            raise self._ended() from None

    def receive(self) -> dict[int, Any]:
        try:
            results: dict[int, Any] | Exception = self._pipe.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(results, Exception):
            raise results
        return results

    def _ended(self) -> StoppedError:
        """Return the error for a process that is gone."""
        self._process.join(timeout=5)
        code = self._process.exitcode
        how = f" by signal {-code}" if code is not None and code < 0 else ""
        return StoppedError(
            f"worker process {self._process.pid} was ended{how} from outside, perhaps for want of "
            "memory"
        )

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()


def _serve(pipe: Connection, threads: int, device: str, problem: Problem) -> None:
    """Execute calls until the other end is gone; Ctrl-C is handled by the main process."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    register(problem)
    share: Share | None = None
    with limited(threads), placed(device):
        while True:
            try:
                name, calls = pipe.recv()
                if name == _BEGIN:
                    beginning, share = calls, None
                    continue
                share = share or Share(*beginning)  # an exception in it is sent like any other
                results: object = share.call(name, calls)
            except (EOFError, OSError):
                return
            except Exception as error:
                results = error
            try:
                pipe.send(results)
            except OSError:
                return
