"""The round loop: select, deliver, (survey, broadcast), train, send, check, mix, record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np

from comity.algorithms.faults import named_faults
from comity.core.fleet import Fleet
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, NamedArrays
from comity.errors import UserError
from comity.federation.attacks import Attackers
from comity.federation.engine import Engine, SimulatedEngine
from comity.federation.messages import ClientUpdate, RoundRequest, alike
from comity.federation.record import RoundRecord
from comity.federation.server import Server

Asked = tuple[Server, RoundRequest, RoundRecord]
"""A server, its request of this round and the record of the round."""


class Answered(NamedTuple):
    """A server's request, and the answers to it."""

    server: Server
    request: RoundRequest
    update: ClientUpdate
    record: RoundRecord


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
            with self._named_faults():
                requests: list[Asked] = [(server, *server.request()) for server in self.servers]
                for whole in self._exchanged(requests, "round", self._round):
                    update = self._attacked(whole.request, whole.update)
                    with self._timed("server"):
                        whole.server.take(whole.request, update, whole.record)
            yield [record for _, _, record in requests]

    def _named_faults(self) -> AbstractContextManager[None]:
        """Return the context in which faults of an algorithm are told with the next round."""
        return named_faults(self.servers[0].configuration.algorithm, self.done + 1)

    def _attacked(self, request: RoundRequest, update: ClientUpdate) -> ClientUpdate:
        """Return the answers to a request, those of attackers changed."""
        return update if self._attackers is None else self._attackers.changed(request, update)

    def _exchanged(
        self,
        requests: Sequence[Asked],
        exchange: str,
        ask: Callable[[Sequence[Asked]], tuple[Sequence[Asked], ClientUpdate]],
    ) -> list[Answered]:
        """Ask clients in as few calls as possible; return the answers to each server's request.

        Args:
            requests: The request of each server to its clients.
            exchange: Its name, for messages.
            ask: Asks some clients together; returns the requests in the end, and the answers.
        """
        parts = [(server, part, record) for server, r, record in requests for part in r.apart()]
        answers: dict[int, list[tuple[RoundRequest, ClientUpdate]]] = {}
        for together in _joinable(parts):
            served, update = ask(together)
            for server, request, _ in served:
                answers.setdefault(id(server), []).append((request, _part(update, request)))
        return [
            Answered(server, *_whole(request, answers[id(server)], exchange), record)
            for server, request, record in requests
        ]

    def _round(self, together: Sequence[Asked]) -> tuple[Sequence[Asked], ClientUpdate]:
        """Ask some clients for a round of work, after its survey where there is one."""
        if self.servers[0].algorithm.surveys and not together[0][1].alone:
            together = self._survey(together)
        with self._timed("clients"):
            return together, self.engine.round(_joined(together))

    def _survey(self, requests: Sequence[Asked]) -> list[Asked]:
        """Run the first exchange of a round; return the requests of the second."""
        with self._timed("clients"):
            survey = self.engine.survey(_joined(requests))
        replies: list[Asked] = []
        for server, request, record in requests:
            with self._timed("server"):
                part = _answered(_part(survey, request), request, "survey")
                replies.append((server, server.reply(request, part, record), record))
        return replies

    def finish(self) -> list[RoundRecord]:
        """Deliver to all clients for the last time, fine-tune, and end the federations."""
        records = self.deliver_last()
        self.end()
        return records

    def deliver_last(self) -> list[RoundRecord]:
        """Deliver to all clients for the last time, and fine-tune."""
        extra = self.servers[0].configuration.extra_rounds
        requests: list[Asked] = [(server, *server.last_request()) for server in self.servers]
        if self.servers[0].algorithm.ensembles:
            requests = [self._ensemble(*one) for one in requests]

        def finish(together: Sequence[Asked]) -> tuple[Sequence[Asked], ClientUpdate]:
            return together, self.engine.finish(_joined(together), extra)

        with self._named_faults():
            for whole in self._exchanged(requests, "finish", finish):
                whole.server.take_last(whole.request, whole.update, whole.record)
        return [record for _, _, record in requests]

    def end(self) -> None:
        """Tell all clients the last verdicts: the federations are over."""
        self.engine.end(RoundRequest.joined([server.end() for server in self.servers]))

    def _ensemble(self, server: Server, request: RoundRequest, record: RoundRecord) -> Asked:
        """Collect the models of all clients; the last request delivers what is made of them."""
        update = self._attacked(request, self.engine.collect(request))
        return server, server.ensemble(request, update, record), record

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return everything that the servers need to go on as if never interrupted."""
        tensors: NamedArrays = {}
        values = []
        for number, server in enumerate(self.servers):
            with self._named_faults():
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
        return sum(_bytes_of(server.initial, len(server.clients)) for server in self.servers)

    def evaluate(self) -> FloatArray:
        """Return validation vectors of all clients as if this were the end; train nothing."""
        requests = [server.last_request()[0] for server in self.servers]
        parts = [part for request in requests for part in request.apart()]
        together = [RoundRequest.joined([parts[i] for i in places]) for places in alike(parts)]
        vectors = np.concatenate([self.engine.evaluate_delivery(part) for part in together])
        clients = [client for part in together for client in part.clients]
        return np.asarray(vectors[np.argsort(clients)])

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return everything that servers and clients need to go on as if never interrupted."""
        tensors, values = super().state()
        clients = {f"clients/{name}": value for name, value in self.engine.state().items()}
        return {**tensors, **clients}, values

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.engine.load(strip_prefix(tensors, "clients/"))
        super().load(tensors, values)


def _joinable(requests: Sequence[Asked]) -> list[list[Asked]]:
    """Return the requests that clients can serve together: with models, and without."""
    every = alike([request for _, request, _ in requests])
    return [[requests[i] for i in places] for places in every]


def _joined(requests: Sequence[Asked]) -> RoundRequest:
    return RoundRequest.joined([request for _, request, _ in requests])


def _part(update: ClientUpdate, request: RoundRequest) -> ClientUpdate:
    """Return the answers of a request's clients."""
    answered = set(update.clients)
    return update.only([client for client in request.clients if client in answered])


def _whole(
    request: RoundRequest, answers: Sequence[tuple[RoundRequest, ClientUpdate]], exchange: str
) -> tuple[RoundRequest, ClientUpdate]:
    """Return a request and the answers to it, whose clients may have been asked in parts."""
    if len(answers) == 1:
        request, update = answers[0]
    else:
        update = _part(ClientUpdate.joined([u for _, u in answers if u.clients]), request)
    return request, _answered(update, request, exchange)


def _answered(update: ClientUpdate, request: RoundRequest, exchange: str) -> ClientUpdate:
    """Return the answers to a request; an exchange that no client has answered is refused."""
    if not update.clients:
        raise UserError(
            f"round {request.round}, {exchange}: none of the {len(request.clients)} clients that "
            "were asked has answered. At least one must; see absences."
        )
    return update


def _bytes_of(models: Fleet, clients: int) -> int:
    """Return the bytes of the models of this many clients."""
    each = sum(t[0].numel() * t.element_size() for t in models.tensors.values())
    return each * clients
