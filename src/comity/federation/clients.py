"""The client half of a round, for some clients as one fleet.

`Clients` hold what is private: preferences, data or environments, personal models. Everything that
leaves them is a `ClientUpdate` with the declared tensors and statistics. A remote client is a fleet
of one: the same code trains in the simulator and at a site.
"""

from __future__ import annotations

import numpy as np
import torch

from comity.algorithms import STEPS
from comity.configuration import Configuration, Travel
from comity.core.fleet import Fleet
from comity.core.pareto import reach
from comity.core.storage import strip_prefix, with_rows
from comity.core.typing import AnyArray, BoolArray, FloatArray, IntArray, NamedArrays
from comity.federation.client_learner import client_learner
from comity.federation.initial_model import initial_fleet
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest
from comity.federation.noise import Draw, mechanism_of
from comity.federation.receipt import Receipt
from comity.federation.selection import ModelSelection, scores
from comity.federation.uplink import Uplink
from comity.learners import Supervised, Task


class Clients:
    """Some clients of a federation: their models, learner and private choices.

    Args:
        configuration: The run's configuration.
        clients: Ids of these clients.
        draw: Draws the noise of differential privacy; None: from the run's seed.
    """

    def __init__(
        self, configuration: Configuration, clients: tuple[int, ...], draw: Draw | None = None
    ) -> None:
        self.configuration, self.clients = configuration, clients
        self._row = {client: row for row, client in enumerate(clients)}
        self._algorithm = configuration.get_algorithm()
        problem = configuration.get_problem()
        self._preferences = preferences = configuration.get_preferences()[list(clients)]
        count, objectives = preferences.shape
        self._models = initial_fleet(configuration, count)
        self._start = self._models.clone()
        self._span = self._algorithm.evaluation_preferences(objectives, "validation")
        self._learner = client_learner(configuration, clients, self._models, preferences)
        self._selection = ModelSelection(
            configuration,
            preferences,
            self._models,
            self._reach,
            conditional=self._span is not None,
            after_training=self._algorithm.select_after_training,
        )
        self._reference_point = problem.reference_point
        self._phases = self._algorithm.phases(problem)
        self._per_objective = any(phase.per_objective for phase in self._phases)
        self._local_phases = self._algorithm.local_phases(problem)
        self._survey_client = self._algorithm.survey_client(problem)
        self._on_receipt = self._algorithm.on_receipt(problem)
        self._sends = self._algorithm.travelling(configuration.get_module())
        self._mechanism = mechanism_of(configuration, draw)
        self._uplink = Uplink(Travel(configuration), self._models, self._mechanism is not None)
        self._incidents: dict[int, str] = {}
        self._surveyed: Receipt | None = None
        self._declined = np.zeros(count, dtype=bool)
        self._kept_value = np.full((count, objectives), -np.inf)
        self._validated = {name: np.zeros(count, dtype=bool) for name in ("received", "trained")}
        self._validation = {n: np.full((count, objectives), np.nan) for n in self._validated}
        self._rounds = np.zeros(count, dtype=np.int64)
        self._validation_steps = np.zeros(count, dtype=np.int64)
        # validation counts against the steps of a client only if it decides which model is held
        self._validation_counts = configuration.keep == "best" or configuration.guard

    # -- one round -------------------------------------------------------------------------

    def survey(self, request: RoundRequest) -> ClientUpdate:
        """Receive models, and return the surveyed statistics and gradients of them."""
        self._apply_verdicts(request)
        receipt = self._receive(request, guarded=self._algorithm.personal)
        values, gradients = self._learner.survey(
            self._models,
            self._rows(request.clients),
            self._algorithm.surveys,
            request.round,
            self._survey_client,
        )
        self._surveyed = Receipt(
            receipt.round, receipt.clients, receipt.value, receipt.declined, gradients
        )
        return ClientUpdate(request.clients, gradients, values)

    def round(self, request: RoundRequest) -> ClientUpdate:
        """Receive models unless a survey did, train, and return the update to send."""
        receipt = self._receipt(request)
        rows = self._rows(request.clients)
        self._rounds[rows] += np.array(request.work or 1)
        goal = self._goal(rows, self._rounds[rows])
        copies, trained = None, None
        if self._per_objective and not request.alone:
            task = self._task(rows, request, goal, receipt.gradients)
            copies = self._learner.train_per_objective(self._models, rows, task)
        else:
            trained = self._train(rows, request, goal, receipt.gradients)
        self._note(receipt, trained)
        return self._update(request, receipt.declined, copies)

    def collect(self, request: RoundRequest) -> ClientUpdate:
        """Return the models that clients would hand over, for an ensemble of all of them."""
        self._apply_verdicts(request)
        rows = self._rows(request.clients)
        models = self._selection.kept if self.configuration.keep == "best" else self._models
        models, statistics = models.select(rows), {"size": self._learner.sizes[rows]}
        return ClientUpdate(request.clients, models.group(*self._sends), statistics)

    def finish(self, request: RoundRequest, extra_rounds: int) -> ClientUpdate:
        """Receive models for the last time, and fine-tune for ``extra_rounds`` rounds."""
        self._apply_verdicts(request)
        rows = self._rows(request.clients)
        if self._algorithm.ensembles and request.models is not None:
            self._selection.kept.put(rows, request.models)  # the ensemble is what is handed over
        receipt = self._receive(request, guarded=True)
        trained = None
        if extra_rounds:
            goal = self._goal(rows, self._rounds[rows] + extra_rounds)
            trained = self._train(rows, request, goal)
        self._note(receipt, trained)
        return ClientUpdate(request.clients, None, self._selection.statistics(rows))

    def end(self, request: RoundRequest) -> None:
        """Apply the last verdicts of the server."""
        self._apply_verdicts(request)

    def _apply_verdicts(self, request: RoundRequest) -> None:
        """Keep or roll back the last round, as the server has decided; twice is once."""
        pairs = list(zip(request.clients, request.verdicts, strict=False))
        if kept := [client for client, verdict in pairs if verdict.kept]:
            self._selection.keep_round(self._rows(kept), self._models, self._start)
        if failed := [client for client, verdict in pairs if verdict.rolled_back]:
            self._roll_back(self._rows(failed))

    def _roll_back(self, rows: IntArray) -> None:
        """Return to the models that some clients started their last round from."""
        start = self._start.select(rows)
        self._models.put(rows, start)
        self._learner.restart(rows, start)
        self._selection.rolled_back(rows)
        self._uplink.rolled_back(rows)

    def _receipt(self, request: RoundRequest) -> Receipt:
        """Return the delivery of this round: that of its survey, or a new one."""
        surveyed, self._surveyed = self._surveyed, None
        if surveyed is not None and surveyed.round == request.round:
            return surveyed.only(request.clients)
        self._apply_verdicts(request)
        return self._receive(request, guarded=self._algorithm.personal)

    def _receive(self, request: RoundRequest, guarded: bool) -> Receipt:
        """Install delivered models; a guarded client declines one that serves it worse."""
        rows, models = self._rows(request.clients), request.models
        declined, value = np.zeros(len(rows), dtype=bool), None
        if models is not None:
            self._uplink.received(rows, models)
            guarded = guarded and self.configuration.guard
            before = self._models.select(rows).clone() if guarded else None
            self._models.put(rows, self._delivered(rows, models))
            value = self._validate(rows, delivered=True)
            if before is not None:
                declined = self._selection.declines(rows, value)
                back = np.flatnonzero(declined)
                self._models.put(rows[back], before.select(back))
            accepted = np.flatnonzero(~declined)
            self._learner.receive(rows[accepted], models.select(accepted))
            self._selection.received(rows, value, declined)
        self._start.put(rows, self._models.select(rows))
        return Receipt(request.round, request.clients, value, declined)

    def _delivered(self, rows: IntArray, models: Fleet) -> Fleet:
        """Return delivered tensors under their local names, and what clients change on receipt."""
        names = {name: name for name in models if name in self._models.tensors}
        for prefix, local in self._algorithm.receive_as.items():
            names |= {n: n.replace(prefix, local, 1) for n in names if n.startswith(prefix)}
        tensors = {local: models[name] for name, local in names.items()}
        if self._on_receipt is not None:
            held = Fleet({**self._models.select(rows).tensors, **tensors})
            tensors |= self._learner.changes(held, rows, self._on_receipt)
        return Fleet(tensors)

    def _goal(self, rows: IntArray, rounds: IntArray) -> IntArray:
        """Return the steps that the models of clients have taken in all after their rounds."""
        return rounds * self._learner.round_steps[rows]

    def _task(
        self, rows: IntArray, request: RoundRequest, goal: IntArray, gradients: Fleet | None
    ) -> Task:
        spent = self._validation_steps[rows] if self._validation_counts else 0
        phases = self._local_phases if request.alone else self._phases
        return Task(request.round, phases, self._start, goal - spent, request.broadcast, gradients)

    def _train(
        self, rows: IntArray, request: RoundRequest, goal: IntArray, gradients: Fleet | None = None
    ) -> FloatArray:
        self._learner.train(self._models, rows, self._task(rows, request, goal, gradients))
        value = self._validate(rows, delivered=False)
        self._selection.trained(rows, value)
        return value

    def _validate(self, rows: IntArray, delivered: bool) -> FloatArray:
        """Return validation vectors of the present models; the selection takes note of them."""
        value, steps = self._learner.evaluate(
            self._models, rows, "validation", self.configuration.validation_episodes
        )
        self._validation_steps[rows] += steps
        self._selection.validated(rows, self._models.select(rows), value, delivered)
        return value

    def _reach(self, rows: IntArray, value: FloatArray) -> FloatArray:
        """Return the hypervolume of each client's model, of all it spans, or its own value."""
        if self._algorithm.select_by == "utility":
            return scores(value, self._preferences[rows])
        vectors = value[:, None]
        if self._span is not None:
            part = ("validation", self._span, self.configuration.validation_episodes)
            vectors, _ = self._learner.evaluate_preferences(self._models, rows, *part)
        return reach(vectors, self._reference_point)

    def _update(
        self, request: RoundRequest, declined: BoolArray, copies: Fleet | None
    ) -> ClientUpdate:
        """Return what leaves the clients; no model where nothing is mixed."""
        rows = self._rows(request.clients)
        statistics = self._selection.statistics(rows)
        if request.alone or not self._algorithm.communicates:
            return ClientUpdate(request.clients, None, statistics)
        own = self._models.select(rows)
        models = own.group(*self._sends) if copies is None else copies
        companions = self._learner.companions()
        if companions is not None:
            models = Fleet({**models.tensors, **companions.select(rows).tensors})
        if self._mechanism is not None:
            return self._private_update(request, rows, models)
        statistics["size"] = self._learner.sizes[rows]
        if self.configuration.guard:
            statistics["declined"] = declined.astype(np.float64)
        if len(own.tensors) > len(models.tensors):
            statistics["unsound"] = (~own.finite()).astype(np.float64)
        for name in self._algorithm.statistics:
            steps = name == STEPS
            values = self._learner.optimiser_steps[rows] if steps else own[name].numpy(force=True)
            statistics[name] = values.astype(np.float64)
        models, encoded = self._uplink.encode(rows, models)
        return ClientUpdate(request.clients, models, statistics, encoded)

    def _private_update(self, request: RoundRequest, rows: IntArray, models: Fleet) -> ClientUpdate:
        """Return noised updates and nothing else; what is not finite is mended here, untold."""
        assert self._mechanism is not None
        base = self._uplink.base(rows)
        models = self._mechanism.released(request.round, request.clients, models, base)
        models, encoded = self._uplink.encode(rows, models)
        broken = np.flatnonzero(~self._models.select(rows).finite())
        if len(broken):
            self._roll_back(rows[broken])
        for client in np.array(request.clients)[broken].tolist():
            self._incidents[client] = (
                f"{self.configuration.named(client)}, round {request.round}: its model is no "
                "longer finite; it went back to its start"
            )
        return ClientUpdate(request.clients, models, {}, encoded)

    def _note(self, receipt: Receipt, trained: FloatArray | None) -> None:
        """Note the validation of a round, which stays here until `metrics` asks for it."""
        rows = self._rows(receipt.clients)
        self._declined[rows] = receipt.declined
        for client in receipt.clients:
            self._incidents.pop(client, None)
        self._kept_value[rows] = self._selection.kept_value[rows]
        for name, value in (("received", receipt.value), ("trained", trained)):
            self._validated[name][rows] = value is not None
            self._validation[name][rows] = np.nan if value is None else value

    def _rows(self, clients: tuple[int, ...] | list[int]) -> IntArray:
        return np.array([self._row[client] for client in clients], dtype=np.int64)

    # -- only in a simulation --------------------------------------------------------------

    def install(self, request: RoundRequest) -> None:
        """Start from given models instead of the common initial one."""
        if request.models is not None:
            rows = self._rows(request.clients)
            self._models.put(rows, request.models)
            self._models.put(rows, self._delivered(rows, request.models))
            self._learner.restart(rows, request.models)
            self._selection.kept.put(rows, request.models)
            self._start.put(rows, request.models)
            self._uplink.received(rows, request.models)

    def metrics(self, clients: tuple[int, ...]) -> RoundMetrics:
        """Return the metrics of clients after the last round that they took part in."""
        rows = self._rows(clients)
        received, trained = (
            self._validation[name][rows] if self._validated[name][rows].any() else None
            for name in ("received", "trained")
        )
        return RoundMetrics(
            received=received,
            trained=trained,
            kept=self._kept_value[rows],
            declined=self._declined[rows],
            steps=self._learner.steps[rows],
            validation_steps=self._validation_steps[rows],
            skipped=self._learner.skipped[rows],
            remarks=self._learner.remarks,
            incidents=tuple(text for c, text in self._incidents.items() if c in clients),
        )

    def evaluate_delivery(self, request: RoundRequest) -> FloatArray:
        """Return validation vectors with the delivered models; nothing is trained or kept."""
        self._apply_verdicts(request)
        rows, episodes = self._rows(request.clients), self.configuration.validation_episodes
        models = self._models
        if request.models is not None:
            models = Fleet({**models.tensors, **self._delivered(rows, request.models).tensors})
        return self._learner.evaluate(models, rows, "validation", episodes)[0]

    def models(self, kept: bool) -> Fleet:
        """Return the models that the clients hold: their best validated ones, or their last."""
        return self._selection.kept if kept else self._models

    def evaluate_preferences(self, preferences: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the final models' test vectors and losses (clients x preferences x objectives)."""
        rows, episodes = np.arange(len(self.clients)), self.configuration.test_episodes
        models = self.models(self.configuration.keep == "best")
        return self._learner.evaluate_preferences(models, rows, "test", preferences, episodes)

    def test(self, kept: bool, purpose: str = "test") -> FloatArray:
        """Return vectors of the final models on test episodes or samples, unseen until now."""
        models, rows = self.models(kept), np.arange(len(self.clients))
        places = rows
        if purpose == "everyone" and self._span is None:  # equal models answer equally
            rows, places = models.distinct()
        episodes = self.configuration.test_episodes
        return self._learner.evaluate(models, rows, purpose, episodes)[0][places]

    def test_outputs(self, kept: bool) -> list[AnyArray]:
        """Return the final models' outputs for their clients' test samples, client by client."""
        assert isinstance(self._learner, Supervised)
        return self._learner.outputs(self.models(kept), np.arange(len(self.clients)), "test")

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return everything that the clients remember between rounds, client first.

        A survey that was not followed by its round is not part of it: it is repeated.
        """
        state: NamedArrays = {"rounds": self._rounds, "validation_steps": self._validation_steps}
        state |= self._selection.state()
        for name, fleet in (("models", self._models), ("start", self._start)):
            state.update({f"{name}/{k}": t.numpy(force=True) for k, t in fleet.tensors.items()})
        state.update({f"learner/{name}": value for name, value in self._learner.state().items()})
        state.update({f"uplink/{name}": value for name, value in self._uplink.state().items()})
        return state

    def load(self, state: NamedArrays) -> None:
        """Restore what `state` returned."""
        self._surveyed = None
        self._rounds = state["rounds"].copy()
        self._validation_steps = state["validation_steps"].copy()
        self._selection.load(state)
        for name, fleet in (("models", self._models), ("start", self._start)):
            for key, tensor in fleet.tensors.items():
                tensor.copy_(torch.from_numpy(state[f"{name}/{key}"]))
        self._learner.load(strip_prefix(state, "learner/"))
        self._uplink.load(strip_prefix(state, "uplink/"))

    @property
    def posted(self) -> NamedArrays:
        """Models that the clients last received, from which encoded messages are measured."""
        return self._uplink.posted

    def snapshot(self, clients: tuple[int, ...]) -> NamedArrays:
        """Return a copy of the state of some clients, one row per client."""
        rows = self._rows(clients)
        return {name: values[rows].copy() for name, values in self.state().items()}

    def restore(self, clients: tuple[int, ...], snapshot: NamedArrays) -> None:
        """Undo everything that some clients did since their `snapshot`."""
        rows, surveyed = self._rows(clients), self._surveyed
        state = self.state()
        self.load({name: with_rows(state[name], rows, old) for name, old in snapshot.items()})
        self._surveyed = surveyed
