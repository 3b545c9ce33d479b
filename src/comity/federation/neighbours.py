"""Federations without a server: every client mixes what it heard, for itself.

A client is the server of its own neighbourhood. It runs the algorithm's rule, with a state of its
own, on its model and those that it heard in the round, and takes its own row. In a simulation these
rows are one matrix, so that mixing stays one product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comity.algorithms import Round
from comity.algorithms.wrappers.application import Step
from comity.configuration import Configuration
from comity.configuration.planning import planned_windows
from comity.configuration.travel import size_of
from comity.core.fleet import Fleet
from comity.core.graphs import contact_graph
from comity.core.mixing import Mixing, Mixings
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import BoolArray, FloatArray
from comity.errors import UserError
from comity.federation.agreement import Exchange
from comity.federation.messages import ClientUpdate, RoundRequest
from comity.federation.record import RoundRecord
from comity.federation.server import Server
from comity.links.settings import SECOND


def server_of(configuration: Configuration) -> Server:
    """Return the server of a run, or what stands in its place where there is none."""
    return (Server if configuration.topology == "star" else Neighbours)(configuration)


class Neighbours(Server):
    """All clients of a simulated federation without a server.

    The rows that a `Server` holds are here the models that clients have mixed for themselves, so
    delivering them takes no bytes. Nothing is used at a client that it did not hear.

    Args:
        configuration: The run's configuration.
        clients: Ids of the clients; default: 0 to n-1.
        initial: The model that all clients start from, or one row per client.
    """

    def __init__(
        self,
        configuration: Configuration,
        clients: Sequence[int] | None = None,
        initial: Fleet | None = None,
    ) -> None:
        super().__init__(configuration, clients, initial)
        self._rules = {client: configuration.get_algorithm() for client in self.clients}

    def request(self) -> tuple[RoundRequest, RoundRecord]:
        """Return the request of the next round, and its record."""
        request, record = super().request()
        if self.configuration.links is not None:
            record.time = planned_windows(self.configuration)[record.round - 1].time / SECOND
        return request, record

    def _answered(
        self,
        request: RoundRequest,
        update: ClientUpdate,
        record: RoundRecord,
        exchange: Exchange,
        extra: int = 0,
    ) -> RoundRequest:
        """Return the request to those who took part; note bytes per message that was heard.

        Nobody asks and nothing is delivered: a client's request is its own.
        """
        request = super()._answered(request, update, record, exchange, extra)
        record.bytes_down = record.bytes_up = 0
        if update.models is not None:
            message = self._agreement.update_bytes(update) // len(update.clients)
            if self.algorithm.reads_start:
                message += size_of(self._travel.sent)
            places = self._places(update.clients)
            record.bytes_up = message * int(self._graph(record.round)[np.ix_(places, places)].sum())
        return request

    def _graph(self, number: int) -> BoolArray:
        """Return which client hears which in a round (clients x clients, receivers first)."""
        configuration, clients = self.configuration, self.clients
        if configuration.links is not None:
            heard = planned_windows(configuration)[number - 1].heard
            everyone = range(len(heard))
            return np.array([[client in sources for client in everyone] for sources in heard])
        return contact_graph(
            configuration.graph, len(clients), configuration.seed, number, clients[0]
        )

    def _apply_rule(self, round: Round, record: RoundRecord) -> Step:
        """Return the mixing in which each client has its own row of its own rule."""
        graph, places = self._graph(round.number), self._places(round.participants)
        hears = graph[np.ix_(places, places)] | np.eye(len(places), dtype=bool)
        parts: dict[int, tuple[BoolArray, Mixings]] = {}
        record.heard = {}
        for client, row in zip(round.participants, hears, strict=True):
            heard = tuple(np.array(round.participants)[row].tolist())
            record.heard[client] = tuple(other for other in heard if other != client)
            parts[client] = row, self._rules[client].mix(self._capped(round.only(heard), record))
        return Step(self._scattered(parts), figures=None, combined=None)

    def _scattered(self, parts: Mapping[int, tuple[BoolArray, Mixings]]) -> Mixings:
        """Return one mixing per group of tensors, with one row per client.

        Args:
            parts: Per client, the senders that its rule was given, as a mask over all senders, and
                the mixings by its rule.
        """
        groups = next(iter(parts.values()))[1].keys()
        rows: dict[str, dict[int, FloatArray]] = {key: {} for key in groups}
        for client, (mask, mixings) in parts.items():
            assert mixings.keys() == groups, f"client {client}: its rule has other groups"
            for key, mixing in mixings.items():
                if not isinstance(mixing, Mixing) or (mixing.base or mixing.stored) is not None:
                    raise UserError(
                        f"topology = neighbours: {self.configuration.algorithm} does more than mix "
                        "the models that were sent, which takes a server. Say topology = star."
                    )
                if client in mixing.route:
                    rows[key][client] = np.zeros(len(mask))
                    rows[key][client][mask] = mixing.weights[mixing.route[client]]
        return {
            key: Mixing(
                np.array(list(own.values())).reshape(-1, len(parts)),
                {client: row for row, client in enumerate(own)},
            )
            for key, own in rows.items()
        }

    def _rule_state(self) -> dict[str, Any]:
        states = {client: rule.state() for client, rule in self._rules.items()}
        return {
            name: value
            for client, state in states.items()
            for name, value in add_prefix(state, f"{client}/").items()
        }

    def _load_rule(self, state: dict[str, Any]) -> None:
        for client, rule in self._rules.items():
            rule.load(strip_prefix(state, f"{client}/"))
