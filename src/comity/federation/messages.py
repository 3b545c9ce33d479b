"""Messages between a server and its clients.

A `RoundRequest` goes from the server to clients, a `ClientUpdate` comes back. `RoundMetrics` stay
with the clients; only a simulation collects them, for the history of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from comity.core.encodings import Encoded
from comity.core.fleet import Fleet
from comity.core.typing import BoolArray, FloatArray, IntArray, NamedArrays


@dataclass(frozen=True)
class Verdict:
    """Decision of the server about the last update of a client that it took."""

    round: int = 0
    """Round of that update; 0 before the first."""
    kept: bool = False
    """The models of that round are those that all clients keep (``keep_scope = federation``)."""
    rolled_back: bool = False
    """The update was left out; the client returns to the model it started the round from."""


@dataclass(frozen=True)
class RoundRequest:
    """Request of the server to some clients: one round of work, or its survey."""

    round: int
    """Number of the round, from 1; 0 installs initial models."""
    clients: tuple[int, ...]
    """Clients that are asked."""
    models: Fleet | None
    """Delivered tensors, one row per client of ``clients``; None before anything was mixed."""
    broadcast: NamedArrays = field(default_factory=dict)
    """Reply of the server to a survey, one row per client of ``clients``."""
    alone: bool = False
    """Nothing is mixed afterwards: clients train on their own objective and send no models."""
    verdicts: tuple[Verdict, ...] = ()
    """One verdict per client of ``clients`` on its last update; empty: none."""
    encoded: tuple[Encoded, ...] = ()
    """``models`` as they travel, one per client; empty: they travel whole. ``models`` are what
    clients decode."""
    posted: Fleet | None = None
    """Models that the clients hold once they have this request, from which encoded updates are
    measured, one row per client; None: updates travel whole. The server's own note."""
    undelivered: frozenset[int] = frozenset()
    """Clients to which nothing is delivered, beside others: their row of ``models`` is what they
    hold already. The server's own note: clients are asked in the parts of `apart`."""
    work: tuple[int, ...] = ()
    """Rounds' work that each client does; empty: one each."""

    def apart(self) -> list[RoundRequest]:
        """Return the request as clients are asked it: those with models, and those without."""
        if not self.undelivered:
            return [self]
        without = [client for client in self.clients if client in self.undelivered]
        others = [client for client in self.clients if client not in self.undelivered]
        parts = [replace(self.only(without), models=None, encoded=(), undelivered=frozenset())]
        if others:
            parts.insert(0, replace(self.only(others), undelivered=frozenset()))
        return parts

    def only(self, clients: Sequence[int]) -> RoundRequest:
        """Return the request to some of its clients, in the order given."""
        same = tuple(clients) == self.clients
        return self if same else self.at(_index(self.clients, clients).tolist())

    def at(self, index: Sequence[int]) -> RoundRequest:
        """Return the request to the clients at some places of ``clients``."""
        return replace(
            self,
            clients=tuple(self.clients[i] for i in index),
            models=None if self.models is None else self.models.select(index),
            broadcast={name: values[list(index)] for name, values in self.broadcast.items()},
            verdicts=tuple(self.verdicts[i] for i in index) if self.verdicts else (),
            encoded=tuple(self.encoded[i] for i in index) if self.encoded else (),
            posted=None if self.posted is None else self.posted.select(index),
            work=tuple(self.work[i] for i in index) if self.work else (),
        )

    @staticmethod
    def joined(requests: Sequence[RoundRequest]) -> RoundRequest:
        """Return requests to different clients as one."""
        if len(requests) == 1:  # joining copies
            return requests[0]
        models = [request.models for request in requests if request.models is not None]
        posted = [request.posted for request in requests if request.posted is not None]
        return RoundRequest(
            requests[0].round,
            tuple(client for request in requests for client in request.clients),
            Fleet.cat(models) if models else None,
            {
                name: np.concatenate([request.broadcast[name] for request in requests])
                for name in requests[0].broadcast
            },
            requests[0].alone,
            tuple(verdict for request in requests for verdict in request.verdicts),
            tuple(encoded for request in requests for encoded in request.encoded),
            Fleet.cat(posted) if posted else None,
            work=tuple(work for request in requests for work in request.work),
        )


@dataclass(frozen=True)
class ClientUpdate:
    """Everything that leaves some clients in a round, or in the survey before it.

    Those who answered may be fewer than those who were asked.
    """

    clients: tuple[int, ...]
    """Clients that answered."""
    models: Fleet | None
    """One row per client, or one per client and objective; gradients in a survey. None where
    nothing is mixed."""
    statistics: dict[str, FloatArray]
    """One row per client. ``size``: amount of data; ``declined``: 1 where the client kept its own
    model; ``unsound``: 1 where a personal tensor is no longer finite; ``validation``: hypervolume
    on validation data, where one round is kept for all; and the declared statistics
    (`Algorithm.statistics`, in a survey `Algorithm.surveys`)."""
    encoded: tuple[Encoded, ...] = ()
    """``models`` as they travel, one per client; empty: they travel whole. ``models`` are what the
    server decodes."""

    @property
    def sizes(self) -> FloatArray:
        """Amount of data of each client; 1 each where clients do not tell it."""
        return self.statistics.get("size", np.ones(len(self.clients)))

    def only(self, clients: Sequence[int]) -> ClientUpdate:
        """Return the part of some clients, in the order given."""
        if tuple(clients) == self.clients:
            return self
        index = _index(self.clients, clients)
        models = None
        if self.models is not None:
            models = self.models.select(expanded(index, len(self.models) // len(self.clients)))
        statistics = {name: values[index] for name, values in self.statistics.items()}
        encoded = tuple(self.encoded[place] for place in index) if self.encoded else ()
        return ClientUpdate(tuple(clients), models, statistics, encoded)

    def finite(self) -> BoolArray:
        """Return which clients sent only finite numbers."""
        count = len(self.clients)
        finite = np.ones(count, dtype=bool)
        if self.models is not None:
            finite &= self.models.finite().reshape(count, -1).all(axis=1)
        for values in self.statistics.values():
            finite &= np.isfinite(values).reshape(count, -1).all(axis=1)
        return finite

    @staticmethod
    def joined(updates: Sequence[ClientUpdate]) -> ClientUpdate:
        """Return the updates of different clients as one; without any, an empty update."""
        models = [update.models for update in updates if update.models is not None]
        return ClientUpdate(
            tuple(client for update in updates for client in update.clients),
            Fleet.cat(models) if models else None,
            {
                name: np.concatenate([update.statistics[name] for update in updates])
                for name in (updates[0].statistics if updates else ())
            },
            tuple(encoded for update in updates for encoded in update.encoded),
        )


@dataclass(frozen=True)
class RoundMetrics:
    """Metrics of some clients after a round, for the history; one row per client."""

    received: FloatArray | None
    """Validation vectors of the received models."""
    trained: FloatArray | None
    """Validation vectors after local training."""
    kept: FloatArray
    """Validation vectors of the models kept so far."""
    declined: BoolArray
    """Clients that kept their own model instead of the received one."""
    steps: IntArray
    """Training steps so far."""
    validation_steps: IntArray
    """Environment steps spent on validation so far."""
    skipped: IntArray
    """Loss terms left out so far, being undefined on a batch."""
    federated: FloatArray | None = None
    """Values to clients of the best federated models so far, where they have lone companions."""
    alone: FloatArray | None = None
    """Values of their best companions so far."""
    remarks: tuple[str, ...] = ()
    """Notes of the learner about how it works here."""
    incidents: tuple[str, ...] = ()
    """Incidents of the round that clients do not tell the server, one sentence each."""

    @staticmethod
    def joined(parts: Sequence[RoundMetrics]) -> RoundMetrics:
        """Return the metrics of different clients as one."""

        def values(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            if all(array is None for array in arrays):
                return None
            pairs = zip(parts, arrays, strict=True)
            return np.concatenate(
                [np.full_like(part.kept, np.nan) if a is None else a for part, a in pairs]
            )

        texts = ("remarks", "incidents")
        names = [entry.name for entry in fields(RoundMetrics) if entry.name not in texts]
        remarks = dict.fromkeys(remark for part in parts for remark in part.remarks)
        incidents = tuple(text for part in parts for text in part.incidents)
        arrays = {name: values(name) for name in names}
        return RoundMetrics(**arrays, remarks=tuple(remarks), incidents=incidents)


def expanded(index: IntArray, each: int) -> IntArray:
    """Return the rows of some clients in a fleet that has ``each`` rows per client."""
    return np.asarray((index[:, None] * each + np.arange(each)).ravel())


def alike(requests: Sequence[RoundRequest]) -> list[list[int]]:
    """Return the requests that can be joined: with models, and without, as lists of places."""
    kinds = [
        [place for place, request in enumerate(requests) if (request.models is None) == none]
        for none in (False, True)
    ]
    return [places for places in kinds if places]


def _index(clients: tuple[int, ...], chosen: Sequence[int]) -> IntArray:
    places = {client: place for place, client in enumerate(clients)}
    return np.array([places[client] for client in chosen], dtype=np.int64)
