"""The server half of a federation: selects, delivers, checks and mixes.

It knows no algorithm and no learner. What the server holds between rounds are *server models*
(rows) and a route that says which client gets which row; `deliver` reads them at the start of the
next round that a client takes part in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from comity.algorithms import Round, Survey
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET, Mixing, Pick, mixed, who_from_whom
from comity.core.rng import stream
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, IntArray, NamedArrays
from comity.federation.clients import initial_fleet
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest


@dataclass
class RoundRecord:
    """One round as the history tells it."""

    round: int
    clients: tuple[int, ...]
    report: RoundMetrics | None
    clusters: list[list[int]] | None = None
    chosen: bool = False
    """Its models are what all clients keep so far."""
    conflict: dict[str, float] | None = None
    """How much updates were against each other, where something is done about it."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """What else the algorithm tells of the server's work."""
    mixing: FloatArray | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    events: list[str] = field(default_factory=list)


class Server:
    """The server half of one federation: selects, delivers, checks and mixes.

    ``clients`` are its members' names on the engine, 0 to n-1 unless several federations share
    one; ``initial`` is the model that all of them start from, or one row for each.
    """

    def __init__(
        self,
        configuration: Configuration,
        clients: Sequence[int] | None = None,
        initial: Fleet | None = None,
    ) -> None:
        self.configuration = configuration
        self.algorithm = configuration.get_algorithm()
        self._wrapper = configuration.get_wrapper()
        self.clients = tuple(range(configuration.clients) if clients is None else clients)
        self.done = 0
        models = initial_fleet(configuration, 1) if initial is None else initial
        self._template = models.group(*self.algorithm.sends)
        self._best = -np.inf
        self._rows: Fleet | None = None
        self._route: dict[int, int] = {}
        self._uploads: Fleet | None = None
        self._delivered: Fleet | None = None

    @property
    def initial(self) -> Fleet:
        """The models that the clients start from, one row each."""
        return self._initial(tuple(self._template), self.clients)

    def server_models(self) -> dict[int, Fleet]:
        """The models that the server holds, each once, by the first client that is to get it."""
        first: dict[int, int] = {}
        for client, row in sorted(self._route.items()):
            first.setdefault(row, client)
        if self._rows is None:
            return {}
        models = self._rows.group(*self._template)
        return {client: models.select([row]) for row, client in first.items()}

    def order(self) -> tuple[RoundRequest, RoundRecord]:
        """What the next round asks of which clients."""
        number = self.done + 1
        participants = self._select(number, clients=not self._mixes(number))
        record = RoundRecord(number, participants, None)
        self._delivered = self._deliver(participants, record)
        return RoundRequest(
            number, participants, self._delivered, alone=not self._mixes(number)
        ), record

    def last_order(self) -> tuple[RoundRequest, RoundRecord]:
        """The last delivery to all (left out when the last mixing was replaced by training)."""
        number = self.configuration.rounds + 1
        record = RoundRecord(
            number, self.clients, None, self.algorithm.diagnostics().get("clusters")
        )
        delivers = self.configuration.fine_tune != "replace-last" and self.algorithm.communicates
        models = self._deliver(self.clients, record) if delivers else None
        return RoundRequest(number, self.clients, models, alone=True), record

    def reply(self, message: ClientUpdate, record: RoundRecord) -> NamedArrays:
        """The brief of the clients of a round, one row each, after what they said in the survey."""
        participants, gradients = record.clients, message.models
        record.bytes_up += _total(message)
        good = np.ones(len(participants), dtype=bool)
        if gradients is not None:
            good &= gradients.finite().reshape(len(participants), -1).all(axis=1)
        for values in message.statistics.values():
            good &= np.isfinite(values).reshape(len(participants), -1).all(axis=1)
        for client in np.array(participants)[~good].tolist():
            record.events.append(
                f"client {client}, round {record.round}: its losses or gradients are not finite; "
                "left out of the survey"
            )
        rows = np.flatnonzero(good)
        survey = Survey(
            tuple(participants[row] for row in rows),
            {name: values[rows] for name, values in message.statistics.items()},
            None if gradients is None else gradients.select(_each(rows, gradients, participants)),
        )
        broadcast = self.algorithm.broadcast(survey)
        record.bytes_down += (
            8 * len(participants) * sum(values.size for values in broadcast.values())
        )
        return {
            name: np.repeat(values[None], len(participants), 0)
            for name, values in broadcast.items()
        }

    def take(self, message: ClientUpdate, record: RoundRecord) -> tuple[int, ...]:
        """Check and mix what the clients of a round sent; those named must be rolled back."""
        number, participants = record.round, record.clients
        self.done = number
        self.choose(message, record)
        if not (self._mixes(number) and self.algorithm.communicates):
            return ()
        assert message.models is not None
        record.bytes_up += _total(message)
        start = self._start(participants, self._delivered, message)
        self._remember_uploads(message)
        good = message.models.finite().reshape(len(participants), -1).all(axis=1)
        good &= message.statistics.get("unsound", np.zeros(len(participants))) == 0
        failed = tuple(np.array(participants)[~good].tolist())
        for client in failed:
            record.events.append(
                f"client {client}, round {number}: its model is no longer finite; "
                "rolled back to its start and left out"
            )
        rows = np.flatnonzero(good)
        if not len(rows):
            record.events.append(f"round {number}: nobody sent a usable model; nothing was mixed")
            return failed
        senders = tuple(participants[row] for row in rows)
        sent = message.models.select(_each(rows, message.models, participants))
        start = start.select(np.repeat(rows, len(sent) // len(rows)))
        seen = Round(
            number=number,
            participants=senders,
            clients=self.clients,
            sent=sent.group(*self._template),
            start=start.group(*self._template),
            sizes=message.statistics["size"][rows],
            statistics={name: message.statistics[name][rows] for name in self.algorithm.statistics},
            asked=len(participants),
            seed=self.configuration.seed,
        )
        mixings = self.algorithm.mix(seen)
        if self._wrapper is not None:
            mixings, record.conflict = self._wrapper.adjust(
                mixings, seen, self.algorithm.shared_update
            )
        self._take(sent, start, mixings)
        diagnostics = self.algorithm.diagnostics()
        record.clusters = diagnostics.pop("clusters", None)
        record.diagnostics = diagnostics
        sizes = {name: tensor[0].numel() for name, tensor in self._template.tensors.items()}
        record.mixing = who_from_whom(mixings, sizes, self.clients, senders)
        return failed

    def choose(self, message: ClientUpdate, record: RoundRecord) -> None:
        """Whether this round serves all clients together better than the one that they keep."""
        worth = message.statistics.get("validation")
        if worth is not None and worth.mean() > self._best:  # nan: nothing was sent yet
            self._best, record.chosen = float(worth.mean()), True

    def gather(self, message: ClientUpdate, record: RoundRecord) -> Fleet:
        """What every client gets of the models that all of them would hand over."""
        assert message.models is not None
        record.bytes_up += _total(message)
        sound = message.models.finite()
        models = message.models.clone()
        broken = np.flatnonzero(~sound)  # a weight of zero would not remove what is not finite
        models.put(
            broken, Fleet({k: torch.zeros_like(t[broken]) for k, t in models.tensors.items()})
        )
        sizes = np.where(sound, message.statistics["size"], 0.0)
        gathered = self.algorithm.ensemble(models, sizes)
        clients = len(self.clients)
        delivered = Fleet({k: t.expand(clients, *t.shape) for k, t in gathered.items()})
        record.bytes_down += bytes_of(delivered, clients)
        return delivered

    def _mixes(self, number: int) -> bool:
        replaced = self.configuration.fine_tune == "replace-last"
        return not (replaced and number == self.configuration.rounds)

    def _select(self, number: int, clients: bool) -> tuple[int, ...]:
        count = self.configuration.participants(len(self.clients))
        if clients or count == len(self.clients):
            return self.clients
        generator = stream(self.configuration.seed, "selection", number, self.clients[0])
        return tuple(sorted(generator.choice(self.clients, count, replace=False).tolist()))

    def _deliver(self, clients: Sequence[int], record: RoundRecord) -> Fleet | None:
        """The server models of some clients, one row each; None as long as nothing was mixed."""
        if self._rows is None or not self.algorithm.communicates:
            return None
        record.bytes_down += bytes_of(self._rows, len(clients))
        return self._rows.select([self._route[client] for client in clients])

    def _start(
        self, participants: Sequence[int], delivered: Fleet | None, message: ClientUpdate
    ) -> Fleet:
        """What each client started from: what it was sent, or what it last sent if it declined."""
        assert message.models is not None
        if delivered is None:
            return self._initial(tuple(message.models), participants)
        start = delivered
        declined = np.flatnonzero(message.statistics.get("declined", np.zeros(len(participants))))
        if len(declined) and self._uploads is not None:
            start = start.clone()
            clients = [participants[place] for place in declined.tolist()]
            start.put(declined, self._uploads.select(self._places(clients)))
        return start

    def _initial(self, names: Sequence[str], clients: Sequence[int]) -> Fleet:
        """What some clients began with; of one common model, copies without the memory."""
        models = Fleet({name: self._template[name.removeprefix(TARGET)] for name in names})
        if len(models) > 1:
            return models.select(self._places(clients))
        expanded = {k: t.expand(len(clients), *t.shape[1:]) for k, t in models.tensors.items()}
        return Fleet(expanded)

    def _remember_uploads(self, message: ClientUpdate) -> None:
        if not (self.configuration.guard and self.algorithm.personal):
            return
        assert message.models is not None
        models = message.models.group(*self._template)
        if self._uploads is None:
            self._uploads = self.initial.clone()
        good = np.flatnonzero(models.finite())
        clients = [message.clients[place] for place in good]
        self._uploads.put(self._places(clients), models.select(good))

    def _places(self, clients: Sequence[int]) -> list[int]:
        return [self.clients.index(client) for client in clients]

    def _take(self, sent: Fleet, start: Fleet, mixings: Mapping[str, Mixing | Pick]) -> None:
        """Mix, and keep the server models of clients that the new route does not name."""
        fresh, route = mixed(mixings, sent, start)
        waiting = [client for client in self.clients if client not in route]
        if waiting:
            if self._rows is None:
                old = self._initial(tuple(sent), waiting)
            else:
                old = self._rows.select([self._route[client] for client in waiting])
            route.update({client: len(fresh) + i for i, client in enumerate(waiting)})
            fresh = Fleet.cat([fresh, old])
        self._rows, self._route = fresh, route

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Tensors and plain values that make the server go on as if never interrupted."""
        tensors: NamedArrays = {}
        for name, fleet in (("rows", self._rows), ("uploads", self._uploads)):
            if fleet is not None:
                tensors.update({f"{name}/{k}": t.numpy() for k, t in fleet.tensors.items()})
        route = [self._route.get(client, -1) for client in self.clients]
        remembered = self.algorithm.state()
        arrays = {k: v for k, v in remembered.items() if isinstance(v, np.ndarray)}
        tensors.update({f"algorithm/{k}": array for k, array in arrays.items()})
        plain = {k: v for k, v in remembered.items() if k not in arrays}
        values = {"done": self.done, "route": route, "algorithm": plain}
        if np.isfinite(self._best):
            values["best"] = self._best
        return tensors, values

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        self._rows = Fleet.from_arrays(strip_prefix(tensors, "rows/"))
        self._uploads = Fleet.from_arrays(strip_prefix(tensors, "uploads/"))
        self.done = values["done"]
        self._best = values.get("best", -np.inf)
        pairs = zip(self.clients, values["route"], strict=True)
        self._route = {client: row for client, row in pairs if row >= 0}
        self.algorithm.load({**values["algorithm"], **strip_prefix(tensors, "algorithm/")})


def _each(rows: IntArray, models: Fleet, clients: Sequence[int]) -> IntArray:
    """The rows of a fleet that belong to some of the clients, which have several each or one."""
    each = len(models) // len(clients)
    return (rows[:, None] * each + np.arange(each)).ravel()


def _total(message: ClientUpdate) -> int:
    """Bytes of everything in a message."""
    models = 0 if message.models is None else bytes_of(message.models, len(message.models))
    return models + sum(values.nbytes for values in message.statistics.values())


def bytes_of(models: Fleet, clients: int) -> int:
    """Bytes of some clients' models."""
    each = sum(t[0].numel() * t.element_size() for t in models.tensors.values())
    return each * clients


__all__ = ["RoundRecord", "Server", "bytes_of"]
