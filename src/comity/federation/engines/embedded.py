"""The embedded engine: all clients on this machine, in chunks, each chunk one fleet.

Which clients form a chunk is part of the configuration; how many processes share the chunks is
not, so results do not depend on it.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from comity.configuration import EXCHANGES, Configuration
from comity.core.devices import placed
from comity.core.fleet import Fleet
from comity.core.storage import strip_prefix
from comity.core.threads import limited
from comity.core.typing import AnyArray, FloatArray, NamedArrays
from comity.errors import StoppedError, UserError
from comity.federation.companion import clients_of
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest
from comity.problems import Problem, register

_BEGIN = "begin"
Calls = dict[int, tuple[Any, ...]]
"""Arguments of a call by number of the chunk."""


class EmbeddedEngine:
    """All clients on this machine.

    The first worker's chunks run in this process, those of the others in processes of their own.

    Args:
        configuration: The run's configuration; ``chunk`` clients form one fleet.
        workers: Processes that share the chunks.
    """

    def __init__(self, configuration: Configuration, workers: int = 1) -> None:
        self._workers = workers
        self._remote: list[_Process] = []
        self.begin(configuration)

    def begin(self, configuration: Configuration) -> None:
        """Make the clients of a configuration; those of an earlier one are gone."""
        clients, size = configuration.clients, configuration.chunk
        chunks = [tuple(range(lo, min(lo + size, clients))) for lo in range(0, clients, size)]
        self._chunks, self._size = chunks, size
        self._absences: dict[str, set[tuple[int, int]]] = {name: set() for name in EXCHANGES}
        for round, client, exchange in configuration.absences:
            self._absences[exchange].add((round, client))
        workers = max(1, min(self._workers, len(chunks)))
        while len(self._remote) < workers - 1:
            self._remote.append(_Process(configuration))
        workers = len(self._remote) + 1
        shares = [range(first, len(chunks), workers) for first in range(workers)]
        for process, share in zip(self._remote, shares[1:], strict=True):
            process.begin(configuration, {number: chunks[number] for number in share})
        self._local = _Share(configuration, {number: chunks[number] for number in shares[0]})

    def __enter__(self) -> EmbeddedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the other processes."""
        for process in self._remote:
            process.stop()

    # -- what a server may ask -------------------------------------------------------------

    def survey(self, request: RoundRequest) -> ClientUpdate:
        request = self._reached(request, "survey")
        # who is absent in the round itself has answered the survey and done nothing else
        lost = [c for c in request.clients if (request.round, c) in self._absences["round"]]
        calls = self._clients(tuple(lost))
        snapshots = self._call("snapshot", calls) if lost else {}
        update = ClientUpdate.joined(self._ask("survey", self._parts(request)))
        if lost:
            self._ask("restore", {n: (*part, snapshots[n]) for n, part in calls.items()})
        return update

    def round(self, request: RoundRequest) -> ClientUpdate:
        request = self._reached(request, "round")
        return ClientUpdate.joined(self._ask("round", self._parts(request)))

    def collect(self, request: RoundRequest) -> ClientUpdate:
        return ClientUpdate.joined(self._ask("collect", self._parts(request)))

    def finish(self, request: RoundRequest, extra_rounds: int) -> ClientUpdate:
        parts = self._parts(self._reached(request, "finish"))
        calls = {number: (*part, extra_rounds) for number, part in parts.items()}
        return ClientUpdate.joined(self._ask("finish", calls))

    def end(self, request: RoundRequest) -> None:
        self._ask("end", self._parts(request))

    # -- what only a simulation may do -----------------------------------------------------

    def metrics(self, clients: tuple[int, ...]) -> RoundMetrics:
        return RoundMetrics.joined(self._ask("metrics", self._clients(clients)))

    def install(self, request: RoundRequest) -> None:
        self._ask("install", self._parts(request))

    def evaluate_delivery(self, request: RoundRequest) -> FloatArray:
        return np.concatenate(self._ask("evaluate_delivery", self._parts(request)))

    def evaluate_preferences(self, preferences: FloatArray) -> tuple[FloatArray, FloatArray]:
        vectors, losses = zip(
            *self._ask("evaluate_preferences", self._all(preferences)), strict=True
        )
        return np.concatenate(vectors), np.concatenate(losses)

    def test(self, kept: bool, purpose: str = "test") -> FloatArray:
        """Return test vectors of the final models of all clients, one row per client.

        Args:
            kept: Test the kept models, not those of the last round.
            purpose: ``"test"``, or with data ``"everyone"``: the test samples of all clients.
        """
        return np.concatenate(self._ask("test", self._all(kept, purpose)))

    def test_outputs(self, kept: bool) -> list[AnyArray]:
        return [rows for part in self._ask("test_outputs", self._all(kept)) for rows in part]

    def models(self, kept: bool) -> Fleet:
        return Fleet.cat(self._ask("models", self._all(kept)))

    def state(self) -> NamedArrays:
        states = self._ask("state", self._all())
        return {
            f"{number}/{name}": value
            for number, state in enumerate(states)
            for name, value in state.items()
        }

    def load(self, state: NamedArrays) -> None:
        chunks = range(len(self._chunks))
        self._ask("load", {number: (strip_prefix(state, f"{number}/"),) for number in chunks})

    # -- chunks ----------------------------------------------------------------------------

    def _reached(self, request: RoundRequest, exchange: str) -> RoundRequest:
        """Return the request to those of its clients that are not absent in an exchange."""
        absent = self._absences[exchange]
        return request.only([c for c in request.clients if (request.round, c) not in absent])

    def _all(self, *arguments: object) -> Calls:
        """Return the same call for every chunk."""
        return dict.fromkeys(range(len(self._chunks)), arguments)

    def _clients(self, clients: tuple[int, ...]) -> Calls:
        """Return the clients of each chunk among those given."""
        parts = self._parts(RoundRequest(0, clients, None))
        return {number: (request.clients,) for number, (request,) in parts.items()}

    def _parts(self, request: RoundRequest) -> Calls:
        """Return each chunk's part of a request; chunks without a client in it are not asked."""
        places: dict[int, list[int]] = {}
        for place, client in enumerate(request.clients):
            places.setdefault(client // self._size, []).append(place)
        return {number: (request.at(index),) for number, index in sorted(places.items())}

    def _ask(self, name: str, calls: Calls) -> list[Any]:
        """Call one method of some chunks, all at the same time; results in the order of chunks."""
        results = self._call(name, calls)
        return [results[number] for number in sorted(results)]

    def _call(self, name: str, calls: Calls) -> dict[int, Any]:
        """Call one method of some chunks, all at the same time; results by chunk."""
        for process in self._remote:
            process.send(name, calls)
        results = self._local.call(name, calls)
        for process in self._remote:
            results.update(process.receive())
        return results


class _Share:
    """The chunks of one worker."""

    def __init__(self, configuration: Configuration, chunks: dict[int, tuple[int, ...]]) -> None:
        self._chunks = {number: clients_of(configuration, ids) for number, ids in chunks.items()}

    def call(self, name: str, calls: Calls) -> dict[int, Any]:
        return {
            number: getattr(clients, name)(*calls[number])
            for number, clients in self._chunks.items()
            if number in calls
        }


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

    def begin(self, configuration: Configuration, chunks: dict[int, tuple[int, ...]]) -> None:
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
    share: _Share | None = None
    with limited(threads), placed(device):
        while True:
            try:
                name, calls = pipe.recv()
                if name == _BEGIN:
                    beginning, share = calls, None
                    continue
                share = share or _Share(*beginning)  # an exception in it is sent like any other
                results: object = share.call(name, calls)
            except (EOFError, OSError):
                return
            except Exception as error:
                results = error
            try:
                pipe.send(results)
            except OSError:
                return
