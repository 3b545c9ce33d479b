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

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.threads import limited
from comity.core.typing import FloatArray, NamedArrays
from comity.errors import UserError
from comity.federation.clients import Clients
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest
from comity.problems import Problem, register

_BEGIN = "begin"


class EmbeddedEngine:
    """Runs every call on all chunks: the first worker's here, the others' in processes."""

    def __init__(self, configuration: Configuration, workers: int = 1) -> None:
        self._workers = workers
        self._remote: list[_Process] = []
        self.begin(configuration)

    def begin(self, configuration: Configuration) -> None:
        """Make the clients of a configuration; those of an earlier one are gone."""
        clients, size = configuration.clients, configuration.chunk
        chunks = [tuple(range(lo, min(lo + size, clients))) for lo in range(0, clients, size)]
        self._chunks = chunks
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

    def round(self, order: RoundRequest) -> tuple[ClientUpdate, RoundMetrics]:
        replies = self._ask("round", self._shares(order))
        messages, reports = zip(*replies, strict=True)
        return ClientUpdate.joined(messages), _together(reports)

    def survey(self, order: RoundRequest) -> ClientUpdate:
        return ClientUpdate.joined(self._ask("survey", self._shares(order)))

    def install(self, order: RoundRequest) -> None:
        self._ask("install", self._shares(order))

    def roll_back(self, clients: tuple[int, ...]) -> None:
        self._ask("roll_back", self._named(clients))

    def keep(self, clients: tuple[int, ...]) -> None:
        self._ask("keep", self._named(clients))

    def collect(self, clients: tuple[int, ...]) -> ClientUpdate:
        return ClientUpdate.joined(self._ask("collect", self._named(clients)))

    def finish(self, order: RoundRequest, extra_rounds: int) -> tuple[ClientUpdate, RoundMetrics]:
        parts = {n: (*part, extra_rounds) for n, part in self._shares(order).items()}
        messages, reports = zip(*self._ask("finish", parts), strict=True)
        return ClientUpdate.joined(messages), _together(reports)

    def evaluate_delivery(self, order: RoundRequest) -> FloatArray:
        return np.concatenate(self._ask("evaluate_delivery", self._shares(order)))

    def evaluate_preferences(self, preferences: FloatArray) -> FloatArray:
        """Objective vectors of the final models at many preferences (clients x preferences)."""
        return np.concatenate(self._ask("evaluate_preferences", self._everywhere(preferences)))

    def test(self, kept: bool, purpose: str = "test") -> FloatArray:
        """Objective vectors of the final models of all clients on their tests.

        With data, ``purpose="everyone"`` judges each model on the test samples of all clients.
        """
        return np.concatenate(self._ask("test", self._everywhere(kept, purpose)))

    def models(self, kept: bool) -> Fleet:
        """The models of all clients."""
        return Fleet.cat(self._ask("models", self._everywhere(kept)))

    def state(self) -> NamedArrays:
        states = self._ask("state", self._everywhere())
        return {
            f"{number}/{name}": value
            for number, state in enumerate(states)
            for name, value in state.items()
        }

    def load(self, state: NamedArrays) -> None:
        parts: dict[int, tuple[Any, ...]] = {}
        for number in range(len(self._chunks)):
            prefix = f"{number}/"
            own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            parts[number] = (own,)
        self._ask("load", parts)

    def _everywhere(self, *arguments: object) -> dict[int, tuple[Any, ...]]:
        return dict.fromkeys(range(len(self._chunks)), arguments)

    def _named(self, clients: tuple[int, ...]) -> dict[int, tuple[Any, ...]]:
        """The clients of each chunk among those named."""
        orders = self._shares(RoundRequest(0, clients, None))
        return {number: (part[0].clients,) for number, part in orders.items()}

    def _shares(self, order: RoundRequest) -> dict[int, tuple[Any, ...]]:
        """Each chunk's part of an order; chunks without a client in it are not asked."""
        parts: dict[int, tuple[Any, ...]] = {}
        for number, chunk in enumerate(self._chunks):
            places = [i for i, client in enumerate(order.clients) if client in chunk]
            if places:
                models = None if order.models is None else order.models.select(places)
                clients = tuple(order.clients[i] for i in places)
                broadcast = {name: values[places] for name, values in order.broadcast.items()}
                parts[number] = (
                    RoundRequest(order.round, clients, models, broadcast, order.alone),
                )
        return parts

    def _ask(self, name: str, parts: dict[int, tuple[Any, ...]]) -> list[Any]:
        """Call one method of the chunks named, all at the same time; answers in chunk order."""
        for process in self._remote:
            process.send(name, parts)
        answers = self._local.call(name, parts)
        for process in self._remote:
            answers.update(process.receive())
        return [answers[number] for number in sorted(answers)]


class _Share:
    """The chunks of one worker."""

    def __init__(self, configuration: Configuration, chunks: dict[int, tuple[int, ...]]) -> None:
        self._silos = {number: Clients(configuration, ids) for number, ids in chunks.items()}

    def call(self, name: str, parts: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        return {
            number: getattr(site, name)(*parts[number])
            for number, site in self._silos.items()
            if number in parts
        }


class _Process:
    """The chunks of another process."""

    def __init__(self, configuration: Configuration) -> None:
        context = multiprocessing.get_context("spawn")
        self._numbers: set[int] = set()
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_serve,
            args=(other, configuration.threads, configuration.get_problem()),
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
        self._pipe.send((_BEGIN, (configuration, chunks)))

    def send(self, name: str, parts: dict[int, tuple[Any, ...]]) -> None:
        self._pipe.send((name, {n: part for n, part in parts.items() if n in self._numbers}))

    def receive(self) -> dict[int, Any]:
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        answers: dict[int, Any] = answer
        return answers

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.terminate()


def _serve(pipe: Connection, threads: int, problem: Problem) -> None:
    """A worker: answers calls until the other end is gone; Ctrl-C is the main process' affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    register(problem)
    share: _Share | None = None
    with limited(threads):
        while True:
            try:
                name, parts = pipe.recv()
                if name == _BEGIN:
                    beginning, share = parts, None
                    continue
                share = share or _Share(*beginning)  # what goes wrong in it is an answer
                answer: object = share.call(name, parts)
            except (EOFError, OSError):
                return
            except Exception as error:
                answer = error
            try:
                pipe.send(answer)
            except OSError:
                return


def _together(reports: tuple[RoundMetrics, ...] | list[RoundMetrics]) -> RoundMetrics:
    def joined(name: str) -> Any:
        values = [getattr(report, name) for report in reports]
        return None if values[0] is None else np.concatenate(values)

    vectors = [name for name in RoundMetrics.__dataclass_fields__ if name != "remarks"]
    remarks = dict.fromkeys(remark for report in reports for remark in report.remarks)
    return RoundMetrics(**{name: joined(name) for name in vectors}, remarks=tuple(remarks))
