"""The server half of a round: select, deliver, check, mix.

The server holds no private data and contains no rule of any algorithm. Between rounds it keeps
*server models* (rows) and a route that maps each client to its row; they are delivered at the start
of the next round that a client takes part in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from comity.algorithms import Round, Survey
from comity.algorithms.wrappers.application import Step, server_models, step_of
from comity.configuration import Configuration
from comity.configuration.participants import mixes, participants
from comity.core.fleet import Fleet
from comity.core.mixing import TARGET, who_from_whom
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import NamedArrays
from comity.federation.agreement import Agreement, Exchange
from comity.federation.checks import Checks
from comity.federation.encoder import encode_fleet, posted_after
from comity.federation.ensemble import ensembled
from comity.federation.initial_model import initial_fleet
from comity.federation.messages import ClientUpdate, RoundRequest, Verdict, expanded
from comity.federation.record import RoundRecord
from comity.federation.schedule import schedule_of


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
        self._template = models.group(*self.algorithm.travelling(configuration.get_module()))
        self._checks = Checks(configuration, self._template)
        self._agreement = Agreement(configuration)
        self._travel = self._agreement.travel
        self._posted: Fleet | None = None
        """Models that clients last received (in answered requests) and decoded, one row per client:
        the base of both directions. None: models travel whole."""
        if self._travel.encoding is not None:
            self._posted = self._initial(tuple(self._travel.sent), self.clients).clone()
        self._schedule = schedule_of(configuration)
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
        number, schedule = self.done + 1, self._schedule
        if schedule is not None:
            clients = schedule.senders(number)
            request = replace(self._request(number, clients, False), work=schedule.work(number))
            record = schedule.opened(RoundRecord(number, clients))
            return self._with_waiting(request, schedule.delivered(clients)), record
        clients = participants(self.configuration, self.clients, number)
        alone = not mixes(self.configuration, number)
        request = self._delivering(self._request(number, clients, alone))
        return request, RoundRecord(number, clients)

    def last_request(self) -> tuple[RoundRequest, RoundRecord]:
        """Return the last delivery; no models where the last mixing was replaced by training."""
        number = self.configuration.rounds + 1
        record = RoundRecord(number, self.clients, self.algorithm.diagnostics().get("clusters"))
        delivers = self.configuration.fine_tune != "replace-last" and self.algorithm.communicates
        request = self._request(number, self.clients, alone=True)
        if delivers and self._schedule is not None and self.done == self.configuration.rounds:
            waiting = self._schedule.delivered(self.clients, last=True)
            return self._with_waiting(request, waiting), record
        return self._delivering(request) if delivers else request, record

    def end(self) -> RoundRequest:
        """Return the request that ends the federation: the last verdicts."""
        return self._request(self.configuration.rounds + 2, self.clients, alone=True)

    def _request(self, number: int, clients: tuple[int, ...], alone: bool) -> RoundRequest:
        verdicts = tuple(self._verdicts.get(client, Verdict()) for client in clients)
        posted = None if self._posted is None else self._posted.select(self._places(clients))
        return RoundRequest(number, clients, None, alone=alone, verdicts=verdicts, posted=posted)

    def _delivering(self, request: RoundRequest) -> RoundRequest:
        """Return a request with the server models of its clients, once something was mixed."""
        models = self._present(request.clients)
        return request if models is None else self._encoded(request, models)

    def _present(self, clients: Sequence[int]) -> Fleet | None:
        """Return the server models of some clients; None before anything was mixed."""
        if self._rows is None or not self.algorithm.communicates:
            return None
        return self._rows.view([self._route[client] for client in clients])

    def _with_waiting(self, request: RoundRequest, models: Mapping[int, Fleet]) -> RoundRequest:
        """Return a request with the models that clients were sent earlier, as far as any were."""
        if not models:
            return request
        held = request.posted
        if held is None:
            held = self._initial(tuple(next(iter(models.values()))), request.clients)
        rows = [models.get(client, held.select([p])) for p, client in enumerate(request.clients)]
        undelivered = frozenset(request.clients) - models.keys()
        return replace(self._encoded(request, Fleet.cat(rows)), undelivered=undelivered)

    def _encoded(self, request: RoundRequest, models: Fleet) -> RoundRequest:
        """Return a request with models, encoded where they are to be."""
        encoding, posted = self._travel.encoding, request.posted
        if encoding is None or posted is None:
            return replace(request, models=models)
        models, encoded = encode_fleet(encoding, tuple(self._travel.sent), models, posted)
        posted = posted_after(posted, models)
        return replace(request, models=models, encoded=encoded, posted=posted)

    # -- updates ---------------------------------------------------------------------------

    def reply(
        self, request: RoundRequest, survey: ClientUpdate, record: RoundRecord
    ) -> RoundRequest:
        """Return the request to those who answered the survey, with the server's broadcast."""
        request = self._answered(request, survey, record, "survey")
        number, events = record.round, record.events
        sound = self._checks.answered(survey, number, events)
        usable = survey.only([c for c, good in zip(survey.clients, sound, strict=True) if good])
        answers = self._checks.amounts(usable.clients, usable.statistics, number, events)
        self._survey = Survey(usable.clients, answers, usable.models)
        broadcast = self.algorithm.broadcast(self._survey)
        rows = {n: np.repeat(v[None], len(request.clients), 0) for n, v in broadcast.items()}
        return replace(request, broadcast=rows)

    def take(self, request: RoundRequest, update: ClientUpdate, record: RoundRecord) -> None:
        """Check and mix the updates of a round; verdicts on them go with the next requests."""
        request = self._answered(request, update, record, "round")
        self.done = record.round
        if self._schedule is not None:
            record.ages = self._schedule.answered(update.clients)
        self._choose(update, record)
        failed = self._mix(request, update, record)
        if self._schedule is not None:
            self._schedule.post(self.done, self._present)
        self._survey = None
        self._verdicts |= {
            client: Verdict(record.round, record.chosen, client in failed)
            for client in update.clients
        }

    def take_last(self, request: RoundRequest, update: ClientUpdate, record: RoundRecord) -> None:
        """Choose the round to keep after the last delivery."""
        self._answered(request, update, record, "finish", self.configuration.extra_rounds)
        self._choose(update, record)
        self._verdicts |= dict.fromkeys(update.clients, Verdict(record.round, record.chosen))

    def _answered(
        self,
        request: RoundRequest,
        update: ClientUpdate,
        record: RoundRecord,
        exchange: Exchange,
        extra: int = 0,
    ) -> RoundRequest:
        """Return the request to those who answered; note bytes, absences and what was received."""
        for part in request.apart():
            record.bytes_down += self._agreement.request_bytes(exchange, part, extra)
        record.bytes_up += self._agreement.update_bytes(update)
        answered = set(update.clients)
        absent = tuple(client for client in request.clients if client not in answered)
        if absent:
            record.absent[exchange] = absent
        record.clients = update.clients
        request = request.only(update.clients)
        if self._posted is not None and request.posted is not None and exchange != "survey":
            self._posted.put(self._places(update.clients), request.posted)
        return request

    def _choose(self, update: ClientUpdate, record: RoundRecord) -> None:
        """Decide whether this round serves all clients together better than the one they keep.

        Only rounds that all clients answered are comparable.
        """
        worth = self._checks.validation(update, record.round, record.events)
        if worth is None or not len(worth) or len(update.clients) < len(self.clients):
            return
        if np.isfinite(worth).all():  # nan: nothing was delivered yet, or a model is not sound
            record.worth, record.measure = float(worth.mean()), self.algorithm.select_by
        if worth.mean() > self._best:
            self._best, record.chosen = float(worth.mean()), True

    def _mix(self, request: RoundRequest, update: ClientUpdate, record: RoundRecord) -> set[int]:
        """Mix the sound models of an update; return the clients that were left out."""
        if update.models is None or not update.clients:
            return set()
        clients, number = update.clients, record.round
        start = self._start(request, update)
        self._remember_uploads(update)
        sound = self._checks.sound(update, start, number, record.events, self.algorithm.statistics)
        failed = set(np.array(clients)[~sound].tolist())
        models = update.models
        if self._schedule is not None:
            sound &= self._schedule.fresh(clients, record)
            now = self._previous(tuple(models), clients)
            models, start = self._schedule.rebased(clients, models, start, now)
        rows = np.flatnonzero(sound)
        if not len(rows):
            record.note_unmixed("nobody sent a usable model")
            return failed
        senders = tuple(clients[row] for row in rows)
        sent = models.select(expanded(rows, len(models) // len(clients)))
        start = start.select(np.repeat(rows, len(sent) // len(rows)))
        round = Round(
            number=number,
            participants=senders,
            clients=self.clients,
            sent=sent.group(*self._template),
            start=start.group(*self._template),
            sizes=update.sizes[rows],
            statistics={name: update.statistics[name][rows] for name in self.algorithm.statistics},
            survey=None if self._survey is None else self._survey.only(senders),
            learner=self.configuration.learner_settings,
            asked=len(clients) + sum(len(absent) for absent in record.absent.values()),
            seed=self.configuration.seed,
            buffers=tuple(n for n in self._template if n not in self._travel.parameters),
        )
        step = self._apply_rule(round, record)
        sent = step.models(sent, start)
        server_rows, route = server_models(
            self.algorithm, step.mixings, sent, start, self._travel.parameters, self._previous
        )
        if not server_rows.finite().all():
            record.note_unmixed(f"what {self.configuration.algorithm} made of it is not finite")
            return failed
        self._store(server_rows, route)
        sizes = {name: tensor[0].numel() for name, tensor in self._template.tensors.items()}
        record.mixing = who_from_whom(step.shares, sizes, self.clients, senders)
        return failed

    def _apply_rule(self, round: Round, record: RoundRecord) -> Step:
        """Return who learns from whom by the algorithm and its wrappers; note their diagnostics."""
        step = step_of(self.algorithm, self._wrappers, self._capped(round, record))
        record.conflict = step.figures
        record.note_diagnostics(self.algorithm.diagnostics())
        return step

    def _capped(self, round: Round, record: RoundRecord) -> Round:
        """Return a round in which no client counts for many times the median amount of data."""
        checks, place = self._checks, (round.number, record.events)
        sizes = checks.sizes(round.participants, round.sizes, *place)
        statistics = checks.amounts(round.participants, round.statistics, *place)
        return replace(round, sizes=sizes, statistics=statistics)

    def ensemble(
        self, request: RoundRequest, update: ClientUpdate, record: RoundRecord
    ) -> RoundRequest:
        """Return a request with what every client gets of the models that all hand over."""
        record.bytes_down += self._agreement.request_bytes("collect", request)
        record.bytes_up += self._agreement.update_bytes(update)
        models = ensembled(self.algorithm, update, len(self.clients), self._checks, record)
        return replace(request, models=models)

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

    def _store(self, rows: Fleet, route: dict[int, int]) -> None:
        """Keep new server models, and what the server had for clients without one."""
        if waiting := [client for client in self.clients if client not in route]:
            route.update({client: len(rows) + i for i, client in enumerate(waiting)})
            rows = Fleet.cat([rows, self._previous(tuple(rows), waiting)])
        if self._schedule is not None:
            after = rows.select([route[client] for client in self.clients])
            self._schedule.mixed(self._previous(tuple(rows), self.clients), after)
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
        fleets = {"rows/": self._rows, "uploads/": self._uploads, "posted/": self._posted}
        for prefix, fleet in fleets.items():
            tensors |= {} if fleet is None else add_prefix(fleet.arrays(), prefix)
        algorithm = self._rule_state()
        arrays = {k: v for k, v in algorithm.items() if isinstance(v, np.ndarray)}
        tensors |= add_prefix(arrays, "algorithm/")
        values = {
            "done": self.done,
            "route": [self._route.get(client, -1) for client in self.clients],
            "verdicts": [asdict(self._verdicts.get(c, Verdict())) for c in self.clients],
            "algorithm": {k: v for k, v in algorithm.items() if k not in arrays},
            **self._checks.state(),
        }
        if np.isfinite(self._best):
            values["best"] = self._best
        if self._schedule is not None:
            arrays, values["schedule"] = self._schedule.state()
            tensors |= add_prefix(arrays, "schedule/")
        return tensors, values

    def load(self, tensors: NamedArrays, values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._rows = Fleet.from_arrays(strip_prefix(tensors, "rows/"))
        self._uploads = Fleet.from_arrays(strip_prefix(tensors, "uploads/"))
        self._posted = Fleet.from_arrays(strip_prefix(tensors, "posted/"))
        self.done = values["done"]
        self._best = values.get("best", -np.inf)
        self._checks.load(values)
        routed = zip(self.clients, values["route"], strict=True)
        self._route = {client: row for client, row in routed if row >= 0}
        verdicts = (Verdict(**verdict) for verdict in values["verdicts"])
        self._verdicts = dict(zip(self.clients, verdicts, strict=True))
        if self._schedule is not None:
            self._schedule.load(strip_prefix(tensors, "schedule/"), values["schedule"])
        self._load_rule({**values["algorithm"], **strip_prefix(tensors, "algorithm/")})

    def _rule_state(self) -> dict[str, Any]:
        """Return what the algorithm must remember."""
        return self.algorithm.state()

    def _load_rule(self, state: dict[str, Any]) -> None:
        """Restore what `_rule_state` returned."""
        self.algorithm.load(state)
