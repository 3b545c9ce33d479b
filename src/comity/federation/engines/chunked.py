"""Engines that hold all clients, in chunks, each chunk one fleet.

Which clients form a chunk is part of the configuration; how many workers share the chunks, and
where they are, is not, so results do not depend on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from comity.configuration import EXCHANGES, Configuration
from comity.core.fleet import Fleet
from comity.core.storage import strip_prefix
from comity.core.typing import AnyArray, FloatArray, NamedArrays
from comity.federation.companion import clients_of
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest

Calls = dict[int, tuple[Any, ...]]
"""Arguments of a call by number of the chunk."""
Chunks = dict[int, tuple[int, ...]]
"""Clients by number of the chunk."""


class ChunkedEngine(ABC):
    """All clients of a federation, whose chunks are dealt to workers.

    Args:
        configuration: The run's configuration; ``chunk`` clients form one fleet.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.begin(configuration)

    def begin(self, configuration: Configuration) -> None:
        """Make the clients of a configuration; those of an earlier one are gone."""
        clients, size = configuration.clients, configuration.chunk
        self._size, self._count = size, -(-clients // size)
        self._absences: dict[str, set[tuple[int, int]]] = {name: set() for name in EXCHANGES}
        for round, client, exchange in configuration.absences:
            self._absences[exchange].add((round, client))
        self._deal(
            configuration,
            [tuple(range(lo, min(lo + size, clients))) for lo in range(0, clients, size)],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _deal(self, configuration: Configuration, chunks: list[tuple[int, ...]]) -> None:
        """Give every worker its share of the chunks."""

    @abstractmethod
    def _call(self, name: str, calls: Calls) -> dict[int, Any]:
        """Call one method of some chunks, all at the same time; results by chunk."""

    @abstractmethod
    def close(self) -> None:
        """Release the workers."""

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

    def evaluate_preferences(self, preferences: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        vectors, losses = zip(
            *self._ask("evaluate_preferences", self._all(preferences)), strict=True
        )
        return np.concatenate(vectors), None if losses[0] is None else np.concatenate(losses)

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
        chunks = range(self._count)
        self._ask("load", {number: (strip_prefix(state, f"{number}/"),) for number in chunks})

    # -- chunks ----------------------------------------------------------------------------

    def _reached(self, request: RoundRequest, exchange: str) -> RoundRequest:
        """Return the request to those of its clients that are not absent in an exchange."""
        absent = self._absences[exchange]
        return request.only([c for c in request.clients if (request.round, c) not in absent])

    def _all(self, *arguments: object) -> Calls:
        """Return the same call for every chunk."""
        return dict.fromkeys(range(self._count), arguments)

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


class Share:
    """The chunks of one worker."""

    def __init__(self, configuration: Configuration, chunks: Chunks) -> None:
        self._chunks = {number: clients_of(configuration, ids) for number, ids in chunks.items()}

    def call(self, name: str, calls: Calls) -> dict[int, Any]:
        """Call one method of those of the chunks that are asked; results by chunk."""
        return {
            number: getattr(clients, name)(*calls[number])
            for number, clients in self._chunks.items()
            if number in calls
        }


def dealt(chunks: list[tuple[int, ...]], workers: int) -> list[Chunks]:
    """Return the share of each worker: chunks are dealt one by one, as cards are."""
    return [{n: chunks[n] for n in range(first, len(chunks), workers)} for first in range(workers)]
