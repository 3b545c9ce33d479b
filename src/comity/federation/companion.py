"""Lone companions: what clients would have without the others, trained beside the federated models.

With ``alone_share`` s > 0 a client spends ⌊s·T⌋ of its T steps on a companion: a model that starts
from the same initial model, learns from the client's own data or environment, and is never mixed
nor sent. Each of the two is chosen by validation as ``keep = best`` does, and the client keeps the
better one, so on its validation data it never ends worse off than its companion.

Where clients hold the problem's own network, the companion is, bit for bit, the client of
``no-communication`` that takes s of the steps. Where an algorithm wraps the network, it is the
client of that algorithm that hears nobody, because what is kept must be a model of the algorithm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comity.algorithms import Algorithm
from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import BoolArray, FloatArray, IntArray, NamedArrays
from comity.federation.clients import Clients
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest
from comity.federation.noise import Draw

ALONE = "no-communication"
"""The algorithm of companions that are the problem's own network."""


def clients_of(
    configuration: Configuration, clients: tuple[int, ...], draw: Draw | None = None
) -> Clients:
    """Return some clients of a run, with their companions if it has any.

    Args:
        configuration: The run's configuration.
        clients: Ids of these clients.
        draw: Draws the noise of differential privacy; None: from the run's seed.
    """
    kind = AccompaniedClients if configuration.alone_share else Clients
    return kind(configuration, clients, draw)


def lone_steps(share: float, steps: IntArray) -> IntArray:
    """Return ⌊s·T⌋, the companions' part of the steps of clients."""
    # 0.29 * 100 is a little less than 29 in floating point, and must not become 28
    return np.floor(np.round(share * steps, 9)).astype(np.int64)


class AccompaniedClients(Clients):
    """Clients that spend a part of their steps on lone companions, and keep the better model.

    Args:
        configuration: The run's configuration.
        clients: Ids of these clients.
        draw: Draws the noise of differential privacy; None: from the run's seed.
    """

    def __init__(
        self, configuration: Configuration, clients: tuple[int, ...], draw: Draw | None = None
    ) -> None:
        self._share = configuration.alone_share
        super().__init__(_shortened(configuration, 1 - self._share), clients, draw)
        self._companions = _Companions(configuration, clients)

    def _goal(self, rows: IntArray, rounds: IntArray) -> IntArray:
        steps = super()._goal(rows, rounds)
        return steps - lone_steps(self._share, steps)

    def _stay(self) -> BoolArray:
        """Return which clients are better off with their companions."""
        alone = self._companions.worth
        return (alone > -np.inf) & ~(self._selection.kept_worth >= alone)

    # -- one round -------------------------------------------------------------------------

    def round(self, request: RoundRequest) -> ClientUpdate:
        """Work as any client does; then let companions work, of which nothing is returned."""
        update = super().round(request)
        self._companions.round(_unheard(request))
        return update

    def finish(self, request: RoundRequest, extra_rounds: int) -> ClientUpdate:
        """Receive models for the last time; fine-tune these and the companions."""
        update = super().finish(request, extra_rounds)
        self._companions.finish(_unheard(request), extra_rounds)
        if self._algorithm.ensembles:
            rows, kept = self._rows(request.clients), self._selection.kept
            episodes = self.configuration.validation_episodes
            value, _ = self._learner.evaluate(kept, rows, "validation", episodes)
            self._selection.handed_over(rows, value)
            self._kept_value[rows] = value
        return update

    # -- only in a simulation --------------------------------------------------------------

    def install(self, request: RoundRequest) -> None:
        """Start from given models, companions too, instead of the common initial one."""
        super().install(request)
        self._companions.install(request)

    def metrics(self, clients: tuple[int, ...]) -> RoundMetrics:
        """Return the metrics of clients: steps of both models, and the values of both."""
        rows = self._rows(clients)
        federated, alone = super().metrics(clients), self._companions.metrics(clients)
        return replace(
            federated,
            kept=np.where(self._stay()[rows, None], alone.kept, federated.kept),
            steps=federated.steps + alone.steps,
            validation_steps=federated.validation_steps + alone.validation_steps,
            skipped=federated.skipped + alone.skipped,
            federated=self._selection.kept_worth[rows],
            alone=self._companions.worth[rows],
        )

    def models(self, kept: bool) -> Fleet:
        """Return the models that the clients hold: the better of both kinds, or the last ones."""
        models = super().models(kept)
        stay = np.flatnonzero(self._stay())
        if not kept or not len(stay):
            return models
        models = models.clone()
        models.put(stay, self._companions.models(kept=True).select(stay))
        return models

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return everything that the clients and their companions remember between rounds."""
        return {**super().state(), **add_prefix(self._companions.state(), "alone/")}

    def load(self, state: NamedArrays) -> None:
        """Restore what `state` returned."""
        super().load(state)
        self._companions.load(strip_prefix(state, "alone/"))


class _Companions(Clients):
    """The companions of some clients: clients of a run without communication."""

    def __init__(self, configuration: Configuration, clients: tuple[int, ...]) -> None:
        self._share = configuration.alone_share
        super().__init__(_lone(configuration), clients)

    def _goal(self, rows: IntArray, rounds: IntArray) -> IntArray:
        return lone_steps(self._share, super()._goal(rows, rounds))

    @property
    def worth(self) -> FloatArray:
        """Values of the best companions so far to their clients, by validation."""
        return self._selection.kept_worth


def _lone(configuration: Configuration) -> Configuration:
    """Return the configuration of companions."""
    plain = {"algorithm": ALONE, "algorithm_settings": {}}
    wrapped = type(configuration.get_algorithm()).build is not Algorithm.build
    changes = {"guard": False, "encoding": "none", "keep_scope": "client", "privacy": None}
    shortened = _shortened(configuration, configuration.alone_share)
    return shortened.model_copy(update={**changes, **({} if wrapped else plain)})


def _shortened(configuration: Configuration, share: float) -> Configuration:
    """Return a configuration with a share of all steps, by which learners plan exploration."""
    learner = configuration.learner_settings
    total = max(1, round(share * learner["total_steps"]))
    return configuration.model_copy(update={"learner_settings": {**learner, "total_steps": total}})


def _unheard(request: RoundRequest) -> RoundRequest:
    """Return a request for the same work without models, as clients that learn alone get it."""
    return RoundRequest(request.round, request.clients, None, alone=True, work=request.work)
