"""What server and clients say to each other: orders, messages, and an engine that carries them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from comity.core.fleet import Fleet
from comity.core.typing import BoolArray, FloatArray, IntArray, NamedArrays


@dataclass(frozen=True)
class RoundRequest:
    """What the server asks of a site: a round number, who takes part, and models for them."""

    round: int
    clients: tuple[int, ...]
    models: Fleet | None
    """One row a client of ``clients``; None before anything was mixed."""
    broadcast: NamedArrays = field(default_factory=dict)
    """The server's answer to a survey, one row a client of ``clients``."""
    alone: bool = False
    """Nothing is mixed afterwards: clients train for themselves, on their own objective."""

    @staticmethod
    def joined(orders: Sequence[RoundRequest]) -> RoundRequest:
        """Orders to different clients, as one."""
        if len(orders) == 1:  # joining copies
            return orders[0]
        models = [order.models for order in orders if order.models is not None]
        clients = tuple(client for order in orders for client in order.clients)
        joined = Fleet.cat(models) if models else None
        return RoundRequest(orders[0].round, clients, joined, alone=orders[0].alone)


@dataclass(frozen=True)
class ClientUpdate:
    """What leaves the clients of a site in a round, or in the survey before it.

    ``models`` has one row a client, or one an objective of each client; in a survey its rows are
    gradients, and there may be none.
    """

    clients: tuple[int, ...]
    models: Fleet | None
    statistics: dict[str, FloatArray]
    """``size``: how much data a client has; ``declined``: 1 where it kept its own model;
    ``unsound``: 1 where something that it keeps is no longer finite; ``validation``: the
    hypervolume that its model reaches, where one round is kept for all; and what the
    algorithm declares (`Algorithm.statistics`, in a survey `Algorithm.surveys`)."""

    def part(self, rows: slice) -> ClientUpdate:
        """What some of the clients sent."""
        models = None
        if self.models is not None:
            each = len(self.models) // len(self.clients)
            inside = slice(rows.start * each, rows.stop * each)
            models = Fleet({name: tensor[inside] for name, tensor in self.models.tensors.items()})
        statistics = {name: values[rows] for name, values in self.statistics.items()}
        return ClientUpdate(self.clients[rows], models, statistics)

    @staticmethod
    def joined(messages: Sequence[ClientUpdate]) -> ClientUpdate:
        """What several sites sent, as one."""
        first = messages[0]
        models = [message.models for message in messages if message.models is not None]
        return ClientUpdate(
            tuple(client for message in messages for client in message.clients),
            Fleet.cat(models) if models else None,
            {
                name: np.concatenate([message.statistics[name] for message in messages])
                for name in first.statistics
            },
        )


@dataclass(frozen=True)
class RoundMetrics:
    """What happened at a site, for the run's history: one row a client of the order."""

    received: FloatArray | None
    trained: FloatArray | None
    kept: FloatArray
    declined: BoolArray
    steps: IntArray
    validation_steps: IntArray
    skipped: IntArray
    """Loss terms that a client had to leave out so far, being undefined on a batch."""
    remarks: tuple[str, ...] = ()

    def part(self, rows: slice) -> RoundMetrics:
        """What happened to some of the clients."""
        return RoundMetrics(
            received=None if self.received is None else self.received[rows],
            trained=None if self.trained is None else self.trained[rows],
            kept=self.kept[rows],
            declined=self.declined[rows],
            steps=self.steps[rows],
            validation_steps=self.validation_steps[rows],
            skipped=self.skipped[rows],
            remarks=self.remarks,
        )


class Engine(Protocol):
    """Where the clients live: sites, and whatever is between them and the server."""

    def survey(self, order: RoundRequest) -> ClientUpdate: ...
    def round(self, order: RoundRequest) -> tuple[ClientUpdate, RoundMetrics]: ...
    def roll_back(self, clients: tuple[int, ...]) -> None: ...
    def keep(self, clients: tuple[int, ...]) -> None: ...
    def finish(
        self, order: RoundRequest, extra_rounds: int
    ) -> tuple[ClientUpdate, RoundMetrics]: ...
    def evaluate_delivery(self, order: RoundRequest) -> FloatArray: ...
    def collect(self, clients: tuple[int, ...]) -> ClientUpdate: ...
    def install(self, order: RoundRequest) -> None: ...
    def state(self) -> NamedArrays: ...
    def load(self, state: NamedArrays) -> None: ...


def alike(orders: Sequence[RoundRequest]) -> list[list[int]]:
    """Orders that can be one: those that deliver models, and those that deliver none."""
    kinds = [[i for i, o in enumerate(orders) if (o.models is None) == none] for none in (0, 1)]
    return [places for places in kinds if places]
