"""The server half of a round: select, deliver, check, mix.

The server holds no private data and contains no rule of any algorithm. Between rounds it keeps
*server models* (rows) and a route that maps each client to its row; they are delivered at the start
of the next round that a client takes part in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch

from comity.algorithms import Round, Survey
from comity.algorithms.wrappers.application import step_of
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET, Mixing, Pick, mixed, who_from_whom
from comity.core.rng import stream
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, NamedArrays
from comity.federation.checks import Checks
from comity.federation.clients import initial_fleet
from comity.federation.messages import ClientUpdate, RoundRequest, Verdict, expanded


@dataclass
class RoundRecord:
    """One round as the server saw it, for the history."""

    round: int
    clients: tuple[int, ...]
    """Clients that answered."""
    clusters: list[list[int]] | None = None
    """Partition of the clients, for algorithms that keep one."""
    chosen: bool = False
    """The models of this round are those that all clients keep so far."""
    worth: float | None = None
    """Mean hypervolume on validation data that clients report, where one round is kept for all."""
    conflict: dict[str, float] | None = None
    """Measures of the wrappers: how much updates were against each other."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Other diagnostics of the algorithm, as plain values."""
    mixing: FloatArray | None = None
    """Weight of each client's update (columns) in each client's server model (rows)."""
    bytes_up: int = 0
    bytes_down: int = 0
    events: list[str] = field(default_factory=list)
    """Incidents, one sentence each."""
    absent: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Clients that were asked and did not answer, by exchange: survey, round or finish."""


class Server:
    """The server half of one federation.

    Args:
        configuration: The run's configuration.
        clients: Ids of the clients on the engine; 0 to n-1 unless several federations share one.
        initial: The model that all clients start from, or one row per client.
    """

    def __init__(
        self,
        configuration: Configuration,
        clients: Sequence[int] | None = None,
        initial: Fleet | None = None,
    ) -> None:
        self.configuration = configuration
        self.algorithm = configuration.get_algorithm()
        self._wrappers = configuration.get_wrappers()
        self.clients = tuple(range(configuration.clients) if clients is None else clients)
        self._place = {client: place for place, client in enumerate(self.clients)}
        self.done = 0
        """Rounds that are finished."""
        models = initial_fleet(configuration, 1) if initial is None else initial
        self._template = models.group(*self.algorithm.sends)
        self._checks = Checks(configuration, self._template)
        self._best = -np.inf
        self._rows: Fleet | None = None
        self._route: dict[int, int] = {}
        self._uploads: Fleet | None = None
        self._verdicts: dict[int, Verdict] = {}
        self._survey: Survey | None = None

    @property
    def initial(self) -> Fleet:
        """The models that the clients start from, one row per client."""
        return self._initial(tuple(self._template), self.clients)

    def server_models(self) -> dict[int, Fleet]:
        """Return the models that the server holds, each once, by the first client of its route."""
        first: dict[int, int] = {}
        for client, row in sorted(self._route.items()):
            first.setdefault(row, client)
        if self._rows is None:
            return {}
        models = self._rows.group(*self._template)
        return {client: models.select([row]) for row, client in first.items()}

    # -- requests --------------------------------------------------------------------------

    def request(self) -> tuple[RoundRequest, RoundRecord]:
        """Return the request of the next round, and its record."""
        number = self.done + 1
        clients = participants(self.configuration, self.clients, number)
        record = RoundRecord(number, clients)
        models = self._deliver(clients, record)
        alone = not mixes(self.configuration, number)
        return self._request(number, clients, models, alone), record

    def last_request(self) -> tuple[RoundRequest, RoundRecord]:
        """Return the last delivery to all clients.

        It delivers no models where the last mixing was replaced by training.
        """
        number = self.configuration.rounds + 1
        clusters = self.algorithm.diagnostics().get("clusters")
        record = RoundRecord(number, self.clients, clusters)
        delivers = self.configuration.fine_tune != "replace-last" and self.algorithm.communicates
        models = self._deliver(self.clients, record) if delivers else None
        return self._request(number, self.clients, models, alone=True), record

    def end(self) -> RoundRequest:
        """Return the request that ends the federation: the last verdicts."""
        return self._request(self.configuration.rounds + 2, self.clients, None, alone=True)

    def _request(
        self, number: int, clients: tuple[int, ...], models: Fleet | None, alone: bool
    ) -> RoundRequest:
        verdicts = tuple(self._verdicts.get(client, Verdict()) for client in clients)
        return RoundRequest(number, clients, models, alone=alone, verdicts=verdicts)

    def _deliver(self, clients: Sequence[int], record: RoundRecord) -> Fleet | None:
        """Return the server models of some clients; None as long as nothing was mixed."""
        if self._rows is None or not self.algorithm.communicates:
            return None
        record.bytes_down += bytes_of(self._rows, len(clients))
        return self._rows.select([self._route[client] for client in clients])

    # -- updates ---------------------------------------------------------------------------

    def reply(
        self, request: RoundRequest, survey: ClientUpdate, record: RoundRecord
    ) -> RoundRequest:
        """Return the request to those who answered the survey, with the server's broadcast."""
        request = self._answered(request, survey, record, "survey")
        record.bytes_up += _bytes(survey)
        sound = self._checks.answered(survey, record.round, record.events)
        usable = survey.only([c for c, good in zip(survey.clients, sound, strict=True) if good])
        self._survey = Survey(usable.clients, usable.statistics, usable.models)
        broadcast = self.algorithm.broadcast(self._survey)
        count = len(request.clients)
        record.bytes_down += 8 * count * sum(values.size for values in broadcast.values())
        rows = {name: np.repeat(values[None], count, 0) for name, values in broadcast.items()}
        return replace(request, broadcast=rows)

    def take(self, request: RoundRequest, update: ClientUpdate, record: RoundRecord) -> None:
        """Check and mix the updates of a round; verdicts on them go with the next requests."""
        request = self._answered(request, update, record, "round")
        self.done = record.round
        self._choose(update, record)
        failed: set[int] = set()
        if update.models is not None and update.clients:
            record.bytes_up += _bytes(update)
            failed = self._mix(request, update, record)
        self._survey = None
        self._verdicts |= {
            client: Verdict(record.round, record.chosen, client in failed)
            for client in update.clients
        }

    def take_last(self, request: RoundRequest, update: ClientUpdate, record: RoundRecord) -> None:
        """Choose the round to keep after the last delivery."""
        self._answered(request, update, record, "finish")
        self._choose(update, record)
        self._verdicts |= {
            client: Verdict(record.round, record.chosen) for client in update.clients
        }

    def _answered(
        self, request: RoundRequest, update: ClientUpdate, record: RoundRecord, exchange: str
    ) -> RoundRequest:
        """Return the request to those who answered; note the others as absent."""
        answered = set(update.clients)
        absent = tuple(client for client in request.clients if client not in answered)
        if absent:
            record.absent[exchange] = absent
        record.clients = update.clients
        return request.only(update.clients)

    def _choose(self, update: ClientUpdate, record: RoundRecord) -> None:
        """Decide whether this round serves all clients together better than the one they keep.

        Only rounds that all clients answered are comparable.
        """
        worth = self._checks.validation(update, record.round, record.events)
        if worth is None or not len(worth) or len(update.clients) < len(self.clients):
            return
        if np.isfinite(worth).all():  # nan: nothing was delivered yet, or a model is not sound
            record.worth = float(worth.mean())
        if worth.mean() > self._best:
            self._best, record.chosen = float(worth.mean()), True

    def _mix(self, request: RoundRequest, update: ClientUpdate, record: RoundRecord) -> set[int]:
        """Mix the sound models of an update; return the clients that were left out."""
        assert update.models is not None
        clients, number = update.clients, record.round
        start = self._start(request, update)
        self._remember_uploads(update)
        sound = self._checks.sound(update, start, number, record.events, self.algorithm.statistics)
        failed = set(np.array(clients)[~sound].tolist())
        rows = np.flatnonzero(sound)
        if not len(rows):
            record.events.append(f"round {number}: nobody sent a usable model; nothing was mixed")
            return failed
        senders = tuple(clients[row] for row in rows)
        sent = update.models.select(expanded(rows, len(update.models) // len(clients)))
        start = start.select(np.repeat(rows, len(sent) // len(rows)))
        round = Round(
            number=number,
            participants=senders,
            clients=self.clients,
            sent=sent.group(*self._template),
            start=start.group(*self._template),
            sizes=self._checks.sizes(
                senders, update.statistics["size"][rows], number, record.events
            ),
            statistics={name: update.statistics[name][rows] for name in self.algorithm.statistics},
            survey=None if self._survey is None else self._survey.only(senders),
            learner=self.configuration.learner_settings,
            asked=len(clients) + sum(len(absent) for absent in record.absent.values()),
            seed=self.configuration.seed,
        )
        step = step_of(self.algorithm, self._wrappers, round)
        record.conflict = step.figures
        self._store(step.models(sent, start), start, step.mixings)
        record.diagnostics = self.algorithm.diagnostics()
        record.clusters = record.diagnostics.pop("clusters", None)
        sizes = {name: tensor[0].numel() for name, tensor in self._template.tensors.items()}
        record.mixing = who_from_whom(step.shares, sizes, self.clients, senders)
        return failed

    def ensemble(self, update: ClientUpdate, record: RoundRecord) -> Fleet:
        """Return what every client gets of the models that all of them hand over."""
        assert update.models is not None
        record.bytes_up += _bytes(update)
        sound = self._checks.sound(update, None, record.round, record.events)
        models = update.models.clone()
        broken = np.flatnonzero(~sound)  # a weight of zero would not remove what is not finite
        models.put(
            broken, Fleet({k: torch.zeros_like(t[broken]) for k, t in models.tensors.items()})
        )
        sizes = np.zeros(len(sound))
        clients = np.array(update.clients)[sound].tolist()
        told = update.statistics["size"][sound]
        sizes[sound] = self._checks.sizes(clients, told, record.round, record.events)
        tensors = self.algorithm.ensemble(models, sizes)
        count = len(self.clients)
        delivered = Fleet({k: t.expand(count, *t.shape) for k, t in tensors.items()})
        record.bytes_down += bytes_of(delivered, count)
        return delivered

    def _start(self, request: RoundRequest, update: ClientUpdate) -> Fleet:
        """Return what each client started from: the delivered model, or its last upload."""
        assert update.models is not None
        clients = update.clients
        if request.models is None:
            return self._initial(tuple(update.models), clients)
        start = request.models
        declined = np.flatnonzero(update.statistics.get("declined", np.zeros(len(clients))))
        if len(declined) and self._uploads is not None:
            start = start.clone()
            uploads = self._places([clients[place] for place in declined.tolist()])
            start.put(declined, self._uploads.select(uploads))
        return start

    def _initial(self, names: Sequence[str], clients: Sequence[int]) -> Fleet:
        """Return the initial models of some clients; one common model is expanded, not copied."""
        models = Fleet({name: self._template[name.removeprefix(TARGET)] for name in names})
        if len(models) > 1:
            return models.select(self._places(clients))
        return Fleet({k: t.expand(len(clients), *t.shape[1:]) for k, t in models.tensors.items()})

    def _remember_uploads(self, update: ClientUpdate) -> None:
        """Store finite uploads: a client that declines starts from its last one."""
        if not (self.configuration.guard and self.algorithm.personal):
            return
        assert update.models is not None
        models = update.models.group(*self._template)
        if self._uploads is None:
            self._uploads = self.initial.clone()
        finite = np.flatnonzero(models.finite())
        clients = [update.clients[place] for place in finite]
        self._uploads.put(self._places(clients), models.select(finite))

    def _places(self, clients: Sequence[int]) -> list[int]:
        return [self._place[client] for client in clients]

    def _store(self, sent: Fleet, start: Fleet, mixings: Mapping[str, Mixing | Pick]) -> None:
        """Mix, and keep what the server had for clients that a mixing does not name."""
        rows, route = mixed(mixings, sent, start, self._previous)
        waiting = [client for client in self.clients if client not in route]
        if waiting:
            route.update({client: len(rows) + i for i, client in enumerate(waiting)})
            rows = Fleet.cat([rows, self._previous(tuple(sent), waiting)])
        self._rows, self._route = rows, route

    def _previous(self, names: Sequence[str], clients: Sequence[int]) -> Fleet:
        """Return tensors that the server holds for some clients; at first, the initial ones."""
        if self._rows is None:
            return self._initial(names, clients)
        rows = [self._route[client] for client in clients]
        return Fleet({name: self._rows[name] for name in names}).select(rows)

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> tuple[NamedArrays, dict[str, Any]]:
        """Return tensors and plain values that make the server go on as if never interrupted."""
        tensors: NamedArrays = {}
        for name, fleet in (("rows", self._rows), ("uploads", self._uploads)):
            if fleet is not None:
                tensors.update({f"{name}/{k}": t.numpy() for k, t in fleet.tensors.items()})
        algorithm = self.algorithm.state()
        arrays = {k: v for k, v in algorithm.items() if isinstance(v, np.ndarray)}
        tensors.update({f"algorithm/{k}": array for k, array in arrays.items()})
        values = {
            "done": self.done,
            "route": [self._route.get(client, -1) for client in self.clients],
            "verdicts": [asdict(self._verdicts.get(c, Verdict())) for c in self.clients],
            "algorithm": {k: v for k, v in algorithm.items() if k not in arrays},
        }
        if np.isfinite(self._best):
            values["best"] = self._best
        if self._checks.capped:
            values["capped"] = self._checks.capped
        return tensors, values

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._rows = Fleet.from_arrays(strip_prefix(tensors, "rows/"))
        self._uploads = Fleet.from_arrays(strip_prefix(tensors, "uploads/"))
        self.done = values["done"]
        self._best = values.get("best", -np.inf)
        self._checks.capped = list(values.get("capped", ()))
        rows = dict(zip(self.clients, values["route"], strict=True))
        self._route = {client: row for client, row in rows.items() if row >= 0}
        verdicts = (Verdict(**verdict) for verdict in values["verdicts"])
        self._verdicts = dict(zip(self.clients, verdicts, strict=True))
        self.algorithm.load({**values["algorithm"], **strip_prefix(tensors, "algorithm/")})


def mixes(configuration: Configuration, number: int) -> bool:
    """Return whether the server mixes after a round."""
    replaced = configuration.fine_tune == "replace-last"
    return not (replaced and number == configuration.rounds)


def participants(
    configuration: Configuration, clients: tuple[int, ...], number: int
) -> tuple[int, ...]:
    """Return the clients that are asked in a round: all, or a random selection."""
    count = configuration.participants(len(clients))
    if count == len(clients) or not mixes(configuration, number):
        return clients
    generator = stream(configuration.seed, "selection", number, clients[0])
    return tuple(sorted(generator.choice(clients, count, replace=False).tolist()))


def bytes_of(models: Fleet, clients: int) -> int:
    """Return the bytes of the models of this many clients."""
    each = sum(t[0].numel() * t.element_size() for t in models.tensors.values())
    return each * clients


def _bytes(update: ClientUpdate) -> int:
    """Return the bytes of everything in an update."""
    models = 0 if update.models is None else bytes_of(update.models, len(update.models))
    return models + sum(values.nbytes for values in update.statistics.values())
