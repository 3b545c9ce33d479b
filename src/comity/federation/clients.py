"""The client half of a round, for some clients as one fleet.

A site holds what is private: preferences, environments, replay, personal models. What leaves it is
a `ClientUpdate`: the declared tensors and statistics, nothing else. A remote client is a fleet of
one. (A `RoundMetrics` is what the simulator writes down about a round; the server of the
federation never reads it.)
"""

from __future__ import annotations

import numpy as np
import torch

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.pareto import reach
from comity.core.phases import ClientModel
from comity.core.rng import torch_seeded
from comity.core.typing import BoolArray, FloatArray, IntArray, NamedArrays
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest
from comity.learners import LEARNERS, Learner, Task


def initial_fleet(configuration: Configuration, clients: int) -> Fleet:
    """The common initial model: averaging differently initialised networks is meaningless."""
    with torch_seeded(configuration.seed, "initial model"):
        return Fleet.of(configuration.get_module(), clients)


class Clients:
    """Some clients of a federation: their models, learner and private choices."""

    def __init__(self, configuration: Configuration, clients: tuple[int, ...]) -> None:
        self.configuration, self.clients = configuration, clients
        self._algorithm = configuration.get_algorithm()
        self._surveyed: tuple[FloatArray | None, BoolArray] | None = None
        problem = configuration.get_problem()
        self._preferences = configuration.get_preferences()[list(clients)]
        self._models = initial_fleet(configuration, len(clients))
        learner_class, settings_class = LEARNERS[problem.learner]
        settings = settings_class(**configuration.learner_settings)
        count, objectives = self._preferences.shape
        conditional = self._algorithm.evaluation_preferences(objectives, "validation") is not None
        setup = ClientModel(
            configuration.get_module(),
            conditional,
            configuration.rounds,
            pooled=self._algorithm.centralised,
        )
        self._learner: Learner = learner_class(
            problem, settings, clients, self._preferences, configuration.seed, self._models, setup
        )
        self._together = configuration.keeps_together
        self._reference_point = problem.reference_point
        self._phases = self._algorithm.phases(problem)
        self._phases_alone = self._algorithm.local_phases(problem)
        self._survey_client = self._algorithm.survey_client(problem)
        self._kept = self._models.clone()
        self._kept_value = np.full((count, objectives), -np.inf)
        self._kept_worth = np.full(count, -np.inf)
        self._own_value = np.full((count, objectives), -np.inf)
        self._rounds = np.zeros(count, dtype=np.int64)
        self._validation_steps = np.zeros(count, dtype=np.int64)
        self._start = self._models.clone()
        self._start_value = np.full((count, objectives), -np.inf)
        self._told_worth = np.full(count, np.nan)
        # What decides which model a client holds is paid for out of its steps; watching is not.
        self._validation_counts = configuration.keep == "best" or configuration.guard

    def install(self, order: RoundRequest) -> None:
        """Start from given models instead of the common initial one."""
        if order.models is not None:
            rows = self._rows(order.clients)
            self._models.put(rows, order.models)
            self._models.put(rows, self._landed(order.models))
            self._learner.restart(rows, order.models)
            self._kept.put(rows, order.models)
            self._start.put(rows, order.models)

    # -- one round -------------------------------------------------------------------------

    def survey(self, order: RoundRequest) -> ClientUpdate:
        """Receive, and say what the server asks of the received models before training."""
        rows = self._rows(order.clients)
        guarded = self._algorithm.personal
        self._surveyed = self._receive(rows, order.models, guarded=guarded)
        asked = self._algorithm.surveys
        values, gradients = self._learner.survey(
            self._models, rows, asked, order.round, self._survey_client
        )
        return ClientUpdate(order.clients, gradients, values)

    def round(self, order: RoundRequest) -> tuple[ClientUpdate, RoundMetrics]:
        """Receive, unless a survey did; train, send."""
        rows = self._rows(order.clients)
        guarded = self._algorithm.personal
        received, declined = self._surveyed or self._receive(rows, order.models, guarded=guarded)
        self._surveyed = None
        self._rounds[rows] += 1
        goal = self._rounds[rows] * self._learner.round_steps[rows]
        copies = None
        if any(phase.per_objective for phase in self._phases) and not order.alone:
            copies = self._learner.train_per_objective(
                self._models, rows, self._task(rows, order, goal)
            )
            trained = None
        else:
            trained = self._train(rows, order, goal)
        message = self._message(order.clients, declined, copies)
        return message, self._report(rows, received, trained, declined)

    def roll_back(self, clients: tuple[int, ...]) -> None:
        """These clients' training went wrong: back to the models that they started from."""
        rows = self._rows(clients)
        start = self._start.select(rows)
        self._models.put(rows, start)
        self._learner.restart(rows, start)
        self._own_value[rows] = -np.inf

    def keep(self, clients: tuple[int, ...]) -> None:
        """The models that these clients told the worth of are what they keep: the choice of all."""
        rows = self._rows(clients)
        trained = self._algorithm.select_after_training
        self._kept.put(rows, (self._models if trained else self._start).select(rows))
        self._kept_value[rows] = (self._own_value if trained else self._start_value)[rows]

    def collect(self, clients: tuple[int, ...]) -> ClientUpdate:
        """The models that these clients would hand over, for an ensemble of all of them."""
        rows = self._rows(clients)
        held = self.models(self.configuration.keep == "best").select(rows)
        statistics = {"size": self._learner.sizes[rows]}
        return ClientUpdate(clients, held.group(*self._algorithm.sends), statistics)

    def finish(self, order: RoundRequest, extra_rounds: int) -> tuple[ClientUpdate, RoundMetrics]:
        """The last delivery, and fine-tuning after it."""
        rows = self._rows(order.clients)
        if self._algorithm.ensembles and order.models is not None:
            self._kept.put(rows, order.models)  # into what they chose to hand over
        received, declined = self._receive(rows, order.models, guarded=True)
        trained = None
        if extra_rounds:
            goal = (self._rounds[rows] + extra_rounds) * self._learner.round_steps[rows]
            trained = self._train(rows, order, goal)
        message = ClientUpdate(order.clients, None, self._choice(rows))
        return message, self._report(rows, received, trained, declined)

    def evaluate_delivery(self, order: RoundRequest) -> FloatArray:
        """How all clients would do on validation data with what they are sent; nothing changes."""
        models = self._models
        if order.models is not None:
            models = Fleet({**models.tensors, **self._landed(order.models).tensors})
        rows, episodes = self._rows(order.clients), self.configuration.validation_episodes
        return self._learner.evaluate(models, rows, "validation", episodes)[0]

    def _receive(
        self, rows: IntArray, models: Fleet | None, guarded: bool
    ) -> tuple[FloatArray | None, BoolArray]:
        """Install received models; a guarded client declines one that serves it worse."""
        declined = np.zeros(len(rows), dtype=bool)
        value = None
        if models is not None:
            own = self._models.select(rows).clone()
            self._models.put(rows, self._landed(models))
            value = self._validate(rows, sent=True)
            if self.configuration.guard and guarded:
                preference = self._preferences[rows]
                declined = _score(value, preference) < _score(self._own_value[rows], preference)
            back = np.flatnonzero(declined)
            self._models.put(rows[back], own.select(back))
            taken = np.flatnonzero(~declined)
            self._learner.receive(rows[taken], models.select(taken))
            self._own_value[rows[taken]] = value[taken]
            self._start_value[rows] = value
        self._start.put(rows, self._models.select(rows))
        return value, declined

    def _landed(self, models: Fleet) -> Fleet:
        """Received tensors under the names that the algorithm puts them to."""
        names = {name: name for name in models if name in self._models.tensors}
        for start, place in self._algorithm.receive_as.items():
            names |= {n: n.replace(start, place, 1) for n in names if n.startswith(start)}
        return Fleet({place: models[name] for name, place in names.items()})

    def _task(self, rows: IntArray, order: RoundRequest, allowance: IntArray) -> Task:
        spent = self._validation_steps[rows] if self._validation_counts else 0
        phases = self._phases_alone if order.alone else self._phases
        return Task(order.round, phases, self._start, allowance - spent, order.broadcast)

    def _train(self, rows: IntArray, order: RoundRequest, allowance: IntArray) -> FloatArray:
        self._learner.train(self._models, rows, self._task(rows, order, allowance))
        value = self._validate(rows, sent=False)
        self._own_value[rows] = value
        return value

    def _validate(self, rows: IntArray, sent: bool) -> FloatArray:
        """Judge the models that some clients hold now, and remember each client's best.

        Where the server chooses the round to keep, clients only note what theirs are worth: those
        that they were sent or, if the algorithm says so, those that they have trained.
        """
        value, steps = self._learner.evaluate(
            self._models, rows, "validation", self.configuration.validation_episodes
        )
        self._validation_steps[rows] += steps
        if self._together:
            if sent != self._algorithm.select_after_training:
                sound = self._models.select(rows).finite()  # one that is not may still score
                self._told_worth[rows] = np.where(sound, self._reach(rows, value), np.nan)
            return value
        worth = self._worth(rows, value)
        better = (worth > self._kept_worth[rows]) & self._models.select(rows).finite()
        places = np.flatnonzero(better)
        self._kept.put(rows[places], self._models.select(rows[places]))
        self._kept_value[rows[places]] = value[places]
        self._kept_worth[rows[places]] = worth[places]
        return value

    def _worth(self, rows: IntArray, value: FloatArray) -> FloatArray:
        """By what a client chooses the model to keep: its preference, or all that it can reach."""
        if self._algorithm.evaluation_preferences(value.shape[1], "validation") is not None:
            return self._reach(rows, value)
        return _score(value, self._preferences[rows])

    def _reach(self, rows: IntArray, value: FloatArray) -> FloatArray:
        """Hypervolume of what each client's model reaches: one vector, or all that it spans."""
        sets = value[:, None]
        asked = self._algorithm.evaluation_preferences(value.shape[1], "validation")
        if asked is not None:
            sets = self._learner.evaluate_preferences(self._models, rows, "validation", asked)
        return reach(sets, self._reference_point)

    def _message(
        self, clients: tuple[int, ...], declined: BoolArray, copies: Fleet | None
    ) -> ClientUpdate:
        rows = self._rows(clients)
        held = self._models.select(rows)
        models = held.group(*self._algorithm.sends) if copies is None else copies
        companions = self._learner.companions()
        if companions is not None:
            models = Fleet({**models.tensors, **companions.select(rows).tensors})
        statistics = {"size": self._learner.sizes[rows], **self._choice(rows)}
        if self.configuration.guard:
            statistics["declined"] = declined.astype(np.float64)
        if len(held.tensors) > len(models.tensors):
            statistics["unsound"] = (~held.finite()).astype(np.float64)
        for name in self._algorithm.statistics:
            statistics[name] = held[name].double().numpy()
        return ClientUpdate(clients, models, statistics)

    def _choice(self, rows: IntArray) -> dict[str, FloatArray]:
        """What the server needs to choose the round that is kept for all."""
        return {"validation": self._told_worth[rows]} if self._together else {}

    def _report(
        self,
        rows: IntArray,
        received: FloatArray | None,
        trained: FloatArray | None,
        declined: BoolArray,
    ) -> RoundMetrics:
        return RoundMetrics(
            received=received,
            trained=trained,
            kept=self._kept_value[rows].copy(),
            declined=declined,
            steps=self._learner.steps[rows].copy(),
            validation_steps=self._validation_steps[rows].copy(),
            skipped=self._learner.skipped[rows].copy(),
            remarks=self._learner.remarks,
        )

    def _rows(self, clients: tuple[int, ...]) -> IntArray:
        return np.array([self.clients.index(client) for client in clients], dtype=np.int64)

    # -- the end ---------------------------------------------------------------------------

    def models(self, kept: bool) -> Fleet:
        """The models that the clients hold: their best validated ones, or their last."""
        return self._kept if kept else self._models

    def evaluate_preferences(self, preferences: FloatArray) -> FloatArray:
        """Judge final models on test samples at many preferences (clients x preferences)."""
        rows = np.arange(len(self.clients))
        kept = self.configuration.keep == "best"
        return self._learner.evaluate_preferences(self.models(kept), rows, "test", preferences)

    def test(self, kept: bool, purpose: str = "test") -> FloatArray:
        """Judge final models on test episodes or samples, which nothing has seen before."""
        rows = np.arange(len(self.clients))
        episodes = self.configuration.test_episodes
        return self._learner.evaluate(self.models(kept), rows, purpose, episodes)[0]

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Everything that the clients of this site remember between rounds, client first."""
        state: NamedArrays = {
            "kept_value": self._kept_value,
            "kept_worth": self._kept_worth,
            "own_value": self._own_value,
            "rounds": self._rounds,
            "validation_steps": self._validation_steps,
        }
        for part, fleet in (("models", self._models), ("kept", self._kept)):
            state.update({f"{part}/{name}": t.numpy() for name, t in fleet.tensors.items()})
        state.update({f"learner/{name}": value for name, value in self._learner.state().items()})
        return state

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` gave."""
        self._kept_value = state["kept_value"].copy()
        self._kept_worth = state["kept_worth"].copy()
        self._own_value = state["own_value"].copy()
        self._rounds = state["rounds"].copy()
        self._validation_steps = state["validation_steps"].copy()
        for part, fleet in (("models", self._models), ("kept", self._kept)):
            for name, tensor in fleet.tensors.items():
                tensor.copy_(torch.from_numpy(state[f"{part}/{name}"]))
        prefix = "learner/"
        self._learner.load(
            {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        )


def _score(values: FloatArray, preferences: FloatArray) -> FloatArray:
    """Scalarised values; minus infinity stays so even where a preference is zero."""
    unknown: BoolArray = np.asarray(np.isneginf(values).any(axis=1))
    products = np.where(unknown[:, None], 0.0, values) * preferences
    return np.where(unknown, -np.inf, products.sum(axis=1))
