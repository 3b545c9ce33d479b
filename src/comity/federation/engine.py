"""Engines: where clients run, and what carries messages between them and the server."""

from __future__ import annotations

from typing import Protocol

from comity.core.fleet import Fleet
from comity.core.typing import AnyArray, FloatArray, NamedArrays
from comity.federation.messages import ClientUpdate, RoundMetrics, RoundRequest


class Engine(Protocol):
    """Requests that a server may make. An update may come from fewer clients than were asked."""

    def survey(self, request: RoundRequest) -> ClientUpdate:
        """Deliver models and return the statistics that the algorithm surveys."""

    def round(self, request: RoundRequest) -> ClientUpdate:
        """Deliver models unless a survey did, train, and return the declared update."""

    def collect(self, request: RoundRequest) -> ClientUpdate:
        """Return the models that clients would hand over, for an ensemble."""

    def finish(self, request: RoundRequest, extra_rounds: int) -> ClientUpdate:
        """Deliver for the last time, and fine-tune for ``extra_rounds`` rounds."""

    def end(self, request: RoundRequest) -> None:
        """Deliver the last verdicts: the federation is over."""


class SimulatedEngine(Engine, Protocol):
    """An engine that holds all clients, so it can also evaluate, install and save them."""

    def metrics(self, clients: tuple[int, ...]) -> RoundMetrics:
        """Return the metrics of clients after the last round that they took part in."""

    def evaluate_delivery(self, request: RoundRequest) -> FloatArray:
        """Return validation vectors of all clients with the delivered models; train nothing."""

    def evaluate_preferences(self, preferences: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the final models' test vectors and losses (clients x preferences x objectives)."""

    def test(self, kept: bool, purpose: str = "test") -> FloatArray:
        """Return test vectors of the final models of all clients, one row per client."""

    def test_outputs(self, kept: bool) -> list[AnyArray]:
        """Return the final models' outputs for their clients' test samples, client by client."""

    def models(self, kept: bool) -> Fleet:
        """Return the models of all clients: their best validated ones, or their last."""

    def install(self, request: RoundRequest) -> None:
        """Set the models from which clients start."""

    def state(self) -> NamedArrays:
        """Return everything that clients remember between rounds."""

    def load(self, state: NamedArrays) -> None:
        """Restore what `state` returned."""
