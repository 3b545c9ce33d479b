"""The server's part of links: who sends when, from which model, and how late.

A client's model leaves the server at one mixing and its update arrives some mixings later. Until
then the model waits here. An update is *late* by the mixings in between that changed the row which
is routed to the client; late updates are measured from the present row, so that every algorithm
sees updates as if nobody were late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from comity.configuration import Configuration, planned
from comity.core.fleet import Fleet
from comity.core.storage import strip_prefix
from comity.core.typing import BoolArray, FloatArray, IntArray, NamedArrays
from comity.federation.messages import expanded
from comity.federation.record import RoundRecord
from comity.links.settings import SECOND


class Schedule:
    """Rounds of a timetable, and the models that are on their way or on board.

    Args:
        configuration: A configuration with links.
    """

    def __init__(self, configuration: Configuration) -> None:
        assert configuration.links is not None
        self._configuration, self._links = configuration, configuration.links
        self.table = planned(configuration)
        self._receivers: dict[int, list[int]] = defaultdict(list)
        """Version -> clients that are sent it."""
        for planned_round in self.table.rounds:
            for client, version in zip(planned_round.senders, planned_round.versions, strict=True):
                self._receivers[version].append(client)
        for client, last in enumerate(self.table.last):
            if last is not None:
                self._receivers[last].append(client)
        self._models: dict[int, Fleet] = {}
        """Models that clients were sent since their last update, one row each."""
        self._changes = np.zeros(configuration.clients, dtype=np.int64)
        """Mixings since then that changed the row of a client."""

    def senders(self, number: int) -> tuple[int, ...]:
        """Return the clients whose updates are mixed in a round."""
        return self.table.rounds[number - 1].senders

    def work(self, number: int) -> tuple[int, ...]:
        """Return the rounds' work of each sender."""
        return self.table.rounds[number - 1].work

    def opened(self, record: RoundRecord) -> RoundRecord:
        """Note when a round is; in the first, who never takes part."""
        record.time = self.table.rounds[record.round - 1].time / SECOND
        if record.round == 1:
            record.events += [
                f"{self._configuration.named(silence.client)} takes part in no round: "
                f"{silence.reason}"
                for silence in self.table.silent
            ]
        return record

    def delivered(self, clients: Sequence[int], last: bool = False) -> dict[int, Fleet]:
        """Return the models that clients were sent, as far as any were.

        Args:
            clients: The clients.
            last: Only what has arrived when the plan ends, after the last update.
        """
        return {
            client: self._models[client]
            for client in clients
            if client in self._models and not (last and self.table.last[client] is None)
        }

    def ages(self, clients: Sequence[int]) -> IntArray:
        """Return by how many mixings the updates of some clients are late."""
        return self._changes[list(clients)]

    def fresh(self, clients: Sequence[int], record: RoundRecord) -> BoolArray:
        """Return which updates are not too old to be mixed; name those that are."""
        ages, oldest = self.ages(clients), self._links.oldest
        for client, age in zip(clients, ages.tolist(), strict=True):
            if age > oldest:
                record.dropped += (client,)
                record.events.append(
                    f"{self._configuration.named(client)}, round {record.round}: its update is "
                    f"{age} mixings late, {oldest} at most (links.oldest); left out"
                )
        return ages <= oldest

    def rebased(
        self, clients: Sequence[int], sent: Fleet, start: Fleet, now: Fleet
    ) -> tuple[Fleet, Fleet]:
        """Return late updates as measured from the present rows, and these as their starts.

        With age a > 0: sent <- now + (1 + a)^-damp (sent - start), then start <- now.

        Args:
            clients: The senders.
            sent: What they sent, one row per client, or one per client and objective.
            start: What they started from, one row per client.
            now: The present rows, one row per client.
        """
        ages = self.ages(clients)
        late = np.flatnonzero(ages)
        if not len(late) or not self._links.rebase:
            return sent, start
        each = len(sent) // len(clients)
        places = expanded(late, each)
        sent, start = sent.clone(), start.clone()
        factors = np.power(1.0 + ages[late], -self._links.damp)
        moved = _moved(sent.select(places), start.select(late), now.select(late), factors)
        sent.put(places, moved)
        start.put(late, now.select(late))
        return sent, start

    def mixed(self, before: Fleet, after: Fleet) -> None:
        """Count the rows that a mixing has changed, one row per client."""
        changed = torch.zeros(len(self._changes), dtype=torch.bool)
        for name, tensor in after.tensors.items():
            changed |= (tensor != before[name]).reshape(len(changed), -1).any(1)
        self._changes += changed.numpy(force=True)

    def answered(self, clients: Sequence[int]) -> tuple[int, ...]:
        """Forget the models that clients have answered; return how late they are."""
        for client in clients:
            self._models.pop(client, None)
        return tuple(self.ages(clients).tolist())

    def post(self, version: int, rows: Callable[[Sequence[int]], Fleet | None]) -> None:
        """Send the models of a mixing to the clients that get this version.

        Args:
            version: Mixings so far.
            rows: The present rows of some clients; None before anything was mixed.
        """
        clients = self._receivers[version]
        models = rows(clients)
        for place, client in enumerate(clients):
            self._changes[client] = 0
            if models is not None:
                self._models[client] = models.select([place]).clone()

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return arrays and plain values that make the schedule go on as if never interrupted."""
        arrays = {
            f"{client}/{name}": tensor.numpy(force=True)
            for client, model in self._models.items()
            for name, tensor in model.tensors.items()
        }
        return arrays, {"clients": sorted(self._models), "changes": self._changes.tolist()}

    def load(self, arrays: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._changes = np.array(values["changes"], dtype=np.int64)
        self._models = {}
        for client in values["clients"]:
            model = Fleet.from_arrays(strip_prefix(arrays, f"{client}/"))
            assert model is not None
            self._models[client] = model


def schedule_of(configuration: Configuration) -> Schedule | None:
    """Return the schedule of a server with links; None without links, or without a server."""
    scheduled = configuration.links is not None and configuration.topology == "star"
    return Schedule(configuration) if scheduled else None


def _moved(sent: Fleet, start: Fleet, now: Fleet, factors: FloatArray) -> Fleet:
    """Return the steps of some clients, weighted, from where they are now."""
    each = len(sent) // len(start)
    tensors = {}
    for name, tensor in sent.tensors.items():
        if not tensor.is_floating_point():  # counters of layers are no step
            tensors[name] = tensor
            continue
        weights = torch.as_tensor(factors, dtype=tensor.dtype).repeat_interleave(each)
        weights = weights.reshape(-1, *[1] * (tensor.ndim - 1))
        base, origin = (fleet[name].repeat_interleave(each, dim=0) for fleet in (now, start))
        tensors[name] = base + weights * (tensor - origin)
    return Fleet(tensors)
