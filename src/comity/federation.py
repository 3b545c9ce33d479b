"""The round loop: select → deliver → receive → train → send → check → mix → record.

It knows no algorithm and no learner. What the server holds between rounds are *server models*
(rows) and a route that says which client gets which row; `deliver` reads them at the start of the
next round that a client takes part in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from comity.algorithms import Round
from comity.configuration import Configuration
from comity.fleet import Fleet, Matrix
from comity.mixing import Mixing
from comity.site import Message, Order, Report, Values, initial_fleet
from comity.streams import stream

_TARGET = "target."  # target networks that travel are mixed like the networks they belong to


class Engine(Protocol):
    """Where the clients live."""

    def round(self, order: Order) -> tuple[Message, Report]: ...
    def roll_back(self, clients: tuple[int, ...]) -> None: ...
    def finish(self, order: Order, extra_rounds: int) -> Report: ...
    def state(self) -> Values: ...
    def load(self, state: Values) -> None: ...


@dataclass
class Record:
    """One round as the history tells it."""

    round: int
    clients: tuple[int, ...]
    report: Report | None
    clusters: list[list[int]] | None = None
    mixing: Matrix | None = None
    bytes_up: int = 0
    bytes_down: int = 0
    events: list[str] = field(default_factory=list)


class Federation:
    """The server half: selects, delivers, checks and mixes; the engine does the rest."""

    def __init__(self, configuration: Configuration, engine: Engine) -> None:
        self.configuration, self.engine = configuration, engine
        self.algorithm = configuration.get_algorithm()
        self.everyone = tuple(range(configuration.clients))
        self.done = 0
        self._rows: Fleet | None = None
        self._route: dict[int, int] = {}
        self._uploads: Fleet | None = None
        self._template = initial_fleet(configuration, 1)

    def rounds(self) -> Iterator[Record]:
        """Run the rounds that are left, one record each."""
        last = self.configuration.rounds
        while self.done < last:
            replaced = self.configuration.fine_tune == "replace-last" and self.done + 1 == last
            yield self._round(self.done + 1, mixes=not replaced)

    def finish(self) -> Record:
        """The last delivery to all (left out when the last mixing was replaced by training)."""
        fine_tune = self.configuration.fine_tune
        extra = int(fine_tune.partition(":")[2] or 0)
        number = self.configuration.rounds + 1
        delivers = fine_tune != "replace-last" and self.algorithm.communicates
        record = Record(number, self.everyone, None)
        models = self._deliver(self.everyone, record) if delivers else None
        record.report = self.engine.finish(Order(number, self.everyone, models), extra)
        record.clusters = self.algorithm.clusters()
        return record

    def _round(self, number: int, mixes: bool) -> Record:
        present = self._select(number, everyone=not mixes)
        record = Record(number, present, None)
        delivered = self._deliver(present, record)
        message, record.report = self.engine.round(Order(number, present, delivered))
        self.done = number
        if not (mixes and self.algorithm.communicates):
            return record
        record.bytes_up = _size(message.models, len(present)) + 8 * len(present) * len(
            message.statistics
        )
        start = self._start(present, delivered, message)
        self._remember_uploads(message)
        good = message.models.finite()
        for client in np.array(present)[~good].tolist():
            record.events.append(
                f"client {client}, round {number}: its model is no longer finite; "
                "rolled back to its start and left out"
            )
        if not good.all():
            self.engine.roll_back(tuple(np.array(present)[~good].tolist()))
        rows = np.flatnonzero(good)
        if not len(rows):
            record.events.append(f"round {number}: nobody sent a usable model; nothing was mixed")
            return record
        senders = tuple(present[row] for row in rows)
        sent = message.models.select(rows)
        model_names = tuple(self._template)
        mixings = self.algorithm.mix(
            Round(
                number=number,
                present=senders,
                everyone=self.everyone,
                sent=sent.group(*model_names),
                start=start.select(rows),
                sizes=message.statistics["size"][rows],
            )
        )
        self._take(sent, mixings, len(rows))
        record.clusters = self.algorithm.clusters()
        record.mixing = self._who_from_whom(mixings, senders)
        return record

    def _select(self, number: int, everyone: bool) -> tuple[int, ...]:
        count = max(1, round(self.configuration.participation * len(self.everyone)))
        if everyone or count == len(self.everyone):
            return self.everyone
        generator = stream(self.configuration.seed, "selection", number)
        return tuple(sorted(generator.choice(self.everyone, count, replace=False).tolist()))

    def _deliver(self, clients: Sequence[int], record: Record) -> Fleet | None:
        """The server models of some clients, one row each; None as long as nothing was mixed."""
        if self._rows is None or not self.algorithm.communicates:
            return None
        record.bytes_down = _size(self._rows, len(clients))
        return self._rows.select([self._route[client] for client in clients])

    def _start(self, present: Sequence[int], delivered: Fleet | None, message: Message) -> Fleet:
        """What each client started from: what it was sent, or what it last sent if it declined."""
        if delivered is None:
            return self._initial(tuple(self._template), len(present))
        start = delivered.group(*self._template)
        declined = np.flatnonzero(message.statistics.get("declined", np.zeros(len(present))))
        if len(declined) and self._uploads is not None:
            start = start.clone()
            start.put(declined, self._uploads.select(np.array(present)[declined]))
        return start

    def _initial(self, names: Sequence[str], count: int) -> Fleet:
        """Copies of the initial model, without the memory."""
        models = {name: self._template[name.removeprefix(_TARGET)] for name in names}
        return Fleet({name: t.expand(count, *t.shape[1:]) for name, t in models.items()})

    def _remember_uploads(self, message: Message) -> None:
        if not (self.configuration.guard and self.algorithm.personal):
            return
        models = message.models.group(*self._template)
        if self._uploads is None:
            self._uploads = self._initial(tuple(self._template), len(self.everyone)).clone()
        good = np.flatnonzero(models.finite())
        self._uploads.put(np.array(message.clients)[good], models.select(good))

    def _take(self, sent: Fleet, mixings: Mapping[str, Mixing], givers: int) -> None:
        """Mix, and keep the server models of clients that the new route does not name."""
        for mixing in mixings.values():
            mixing.check(givers)
        tensors = {}
        for name in sent:
            mixing = _of(mixings, name)
            tensors[name] = Fleet({name: sent[name]}).mix(mixing.weights)[name]
        route = dict(next(iter(mixings.values())).route)
        fresh = Fleet(tensors)
        waiting = [client for client in self.everyone if client not in route]
        if waiting:
            if self._rows is None:
                old = self._initial(tuple(sent), len(waiting))
            else:
                old = self._rows.select([self._route[client] for client in waiting])
            route.update({client: len(fresh) + i for i, client in enumerate(waiting)})
            fresh = Fleet.cat([fresh, old])
        self._rows, self._route = fresh, route

    def _who_from_whom(self, mixings: Mapping[str, Mixing], senders: Sequence[int]) -> Matrix:
        """How much each client takes from each, averaged over tensors by their size."""
        sizes = {name: tensor[0].numel() for name, tensor in self._template.tensors.items()}
        matrix = np.full((len(self.everyone),) * 2, np.nan)
        for client, row in next(iter(mixings.values())).route.items():
            total = sum(_of(mixings, name).weights[row] * size for name, size in sizes.items())
            matrix[client, :] = 0.0
            matrix[client, list(senders)] = total / sum(sizes.values())
        return matrix

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> tuple[Values, dict[str, Any]]:
        """Tensors and plain values that make the federation go on as if never interrupted."""
        tensors = {f"site/{name}": value for name, value in self.engine.state().items()}
        for part, fleet in (("rows", self._rows), ("uploads", self._uploads)):
            if fleet is not None:
                tensors.update({f"{part}/{k}": t.numpy() for k, t in fleet.tensors.items()})
        route = [self._route.get(client, -1) for client in self.everyone]
        return tensors, {"done": self.done, "route": route, "algorithm": self.algorithm.state()}

    def load(self, tensors: Values, values: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""

        def part(prefix: str) -> Values:
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

        def fleet(prefix: str) -> Fleet | None:
            found = {k: torch.from_numpy(v.copy()) for k, v in part(prefix).items()}
            return Fleet(found) if found else None

        self.engine.load(part("site/"))
        self._rows, self._uploads = fleet("rows/"), fleet("uploads/")
        self.done = values["done"]
        self._route = {c: r for c, r in enumerate(values["route"]) if r >= 0}
        self.algorithm.load(values["algorithm"])


def _of(mixings: Mapping[str, Mixing], name: str) -> Mixing:
    """The mixing of a tensor."""
    name = name.removeprefix(_TARGET)
    return mixings[name if name in mixings else "*"]


def _size(models: Fleet, clients: int) -> int:
    """Bytes of some clients' models."""
    each = sum(t[0].numel() * t.element_size() for t in models.tensors.values())
    return each * clients


__all__ = ["Engine", "Federation", "Record"]
