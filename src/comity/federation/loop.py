"""The round loop: select, deliver, (survey, broadcast), train, send, check, mix, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, NamedArrays
from comity.errors import UserError
from comity.federation.attacks import Attackers
from comity.federation.engine import Engine, SimulatedEngine
from comity.federation.messages import ClientUpdate, RoundRequest, alike
from comity.federation.server import RoundRecord, Server, bytes_of

Asked = tuple[Server, RoundRequest, RoundRecord]
"""A server, its request of this round and the record of the round."""


class RoundLoop:
    """Rounds of one or several federations of equal configuration on one engine.

    Clients of several federations train as one fleet; their servers are independent.

    Args:
        engine: Where the clients run.
        servers: One server per federation; their clients have different ids.
    """

    def __init__(self, engine: Engine, *servers: Server) -> None:
        self.engine, self.servers = engine, servers
        configuration = servers[0].configuration
        self._attackers = Attackers(configuration) if configuration.attackers else None
        self.spent = {"clients": 0.0, "server": 0.0}
        """Seconds that rounds took at the clients and on the server."""

    @contextmanager
    def _timed(self, side: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.spent[side] += time.perf_counter() - began

    @property
    def done(self) -> int:
        """Rounds that are finished."""
        return self.servers[0].done

    def rounds(self) -> Iterator[list[RoundRecord]]:
        """Run the rounds that are left; yield one record per federation after each."""
        while self.done < self.servers[0].configuration.rounds:
            asked: list[Asked] = [(server, *server.request()) for server in self.servers]
            for together in _joinable(asked):
                if self.servers[0].algorithm.surveys and not together[0][1].alone:
                    together = self._survey(together)
                with self._timed("clients"):
                    update = self._attacked(self.engine.round, _joined(together))
                for server, request, record in together:
                    with self._timed("server"):
                        server.take(request, _part(update, server, request, "round"), record)
            yield [record for _, _, record in asked]

    def _attacked(
        self, exchange: Callable[[RoundRequest], ClientUpdate], request: RoundRequest
    ) -> ClientUpdate:
        """Return the answers to a request, those of attackers changed."""
        update = exchange(request)
        return update if self._attackers is None else self._attackers.changed(request, update)

    def _survey(self, asked: Sequence[Asked]) -> list[Asked]:
        """Run the first exchange of a round; return the requests of the second."""
        with self._timed("clients"):
            survey = self.engine.survey(_joined(asked))
        replies: list[Asked] = []
        for server, request, record in asked:
            with self._timed("server"):
                part = _part(survey, server, request, "survey")
                replies.append((server, server.reply(request, part, record), record))
        return replies

    def finish(self) -> list[RoundRecord]:
        """Deliver to all clients for the last time, fine-tune, and end the federations."""
        records = self.deliver_last()
        self.end()
        return records

    def deliver_last(self) -> list[RoundRecord]:
        """Deliver to all clients for the last time, and fine-tune."""
        extra = int(self.servers[0].configuration.fine_tune.partition(":")[2] or 0)
        asked: list[Asked] = [(server, *server.last_request()) for server in self.servers]
        if self.servers[0].algorithm.ensembles:
            asked = [self._ensemble(*one) for one in asked]
        for together in _joinable(asked):
            update = self.engine.finish(_joined(together), extra)
            for server, request, record in together:
                server.take_last(request, _part(update, server, request, "finish"), record)
        return [record for _, _, record in asked]

    def end(self) -> None:
        """Tell all clients the last verdicts: the federations are over."""
        self.engine.end(RoundRequest.joined([server.end() for server in self.servers]))

    def _ensemble(self, server: Server, request: RoundRequest, record: RoundRecord) -> Asked:
        """Collect the models of all clients; the last request delivers what is made of them."""
        update = self._attacked(self.engine.collect, replace(request, models=None))
        return server, replace(request, models=server.ensemble(update, record)), record

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return everything that the servers need to go on as if never interrupted."""
        tensors: NamedArrays = {}
        values = []
        for number, server in enumerate(self.servers):
            arrays, plain = server.state()
            tensors.update({f"{number}/{name}": array for name, array in arrays.items()})
            values.append(plain)
        if self._attackers is not None:
            tensors |= add_prefix(self._attackers.state(), "attack/")
        return tensors, {"federations": values}

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        for number, (server, plain) in enumerate(
            zip(self.servers, values["federations"], strict=True)
        ):
            server.load(strip_prefix(tensors, f"{number}/"), plain)
        if self._attackers is not None:
            self._attackers.load(strip_prefix(tensors, "attack/"))


class SimulatedLoop(RoundLoop):
    """A round loop on an engine that holds all clients, so it can evaluate and save them."""

    engine: SimulatedEngine

    def __init__(self, engine: SimulatedEngine, *servers: Server) -> None:
        super().__init__(engine, *servers)

    def install(self) -> int:
        """Give every client the initial model of its federation; return the bytes sent."""
        for server in self.servers:
            self.engine.install(RoundRequest(0, server.clients, server.initial))
        return sum(bytes_of(server.initial, len(server.clients)) for server in self.servers)

    def evaluate(self) -> FloatArray:
        """Return validation vectors of all clients as if this were the end; train nothing."""
        requests = [server.last_request()[0] for server in self.servers]
        return self.engine.evaluate_delivery(RoundRequest.joined(requests))

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return everything that servers and clients need to go on as if never interrupted."""
        tensors, values = super().state()
        clients = {f"clients/{name}": value for name, value in self.engine.state().items()}
        return {**tensors, **clients}, values

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.engine.load(strip_prefix(tensors, "clients/"))
        super().load(tensors, values)


def _joinable(asked: Sequence[Asked]) -> list[list[Asked]]:
    """Return the requests that clients can serve together: with models, and without."""
    return [[asked[i] for i in places] for places in alike([request for _, request, _ in asked])]


def _joined(asked: Sequence[Asked]) -> RoundRequest:
    return RoundRequest.joined([request for _, request, _ in asked])


def _part(
    update: ClientUpdate, server: Server, request: RoundRequest, exchange: str
) -> ClientUpdate:
    """Return the answers of one server's clients to its request."""
    answered = set(update.clients)
    clients = [client for client in request.clients if client in answered]
    if not clients:
        raise UserError(
            f"round {request.round}, {exchange}: none of the {len(request.clients)} clients that "
            "were asked has answered. At least one must; see absences."
        )
    return update.only(clients)
