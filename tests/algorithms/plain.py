"""Federations beside plain loops: the referee of algorithms that step on a server."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from comity.configuration import Configuration
from comity.core.fleet import Fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import draw_batches, tiny


def federation(configuration: Configuration) -> list[tuple[Fleet, Fleet]]:
    """Return the clients' models and those that the server would deliver, after each round."""
    states = []
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        for _ in RoundLoop(engine, server).rounds():
            delivered = server.last_request()[0].models
            assert delivered is not None
            states.append((engine.models(kept=False).clone(), delivered.clone()))
    return states


class Plain:
    """The clients of a run of tiny-answers, with plain networks and plain gradient descent."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.problem = configuration.get_problem()
        self.weights = torch.from_numpy(configuration.get_preferences()).float()
        self.rows = [rows.train for rows in self.problem.client_rows()]
        self.rate = configuration.learner_settings["learning_rate"]
        self.size = configuration.learner_settings["batch_size"]

    def loss(self, x: dict[str, Tensor], client: int, batch: Any) -> Tensor:
        network = self.problem.model()
        outputs = torch.func.functional_call(network, x, (batch["inputs"],))
        return (self.weights[client] * self.problem.losses(outputs, batch)).sum()

    def gradients(self, x: dict[str, Tensor], client: int, batch: Any) -> dict[str, Tensor]:
        leaves = {name: tensor.clone().requires_grad_() for name, tensor in x.items()}
        grads = torch.autograd.grad(self.loss(leaves, client, batch), list(leaves.values()))
        return dict(zip(leaves, grads, strict=True))

    def batches(self, client: int, round: int, steps: int) -> list[Any]:
        return draw_batches(self.problem, self.rows[client], client, steps, self.size, 0, round)


def run_of(name: str, **values: Any) -> Configuration:
    learner = {"optimiser": "sgd", "learning_rate": 0.2, **values.pop("supervised", {})}
    usual = {"participation": 0.5, "rounds": 4, "chunk": 4, "preferences": "dirichlet"}
    return tiny(problem="tiny-answers", algorithm=name, supervised=learner, **{**usual, **values})


def initial(configuration: Configuration, prefix: str = "") -> dict[str, Tensor]:
    models = Server(configuration).initial
    return {
        name.removeprefix(prefix): tensor[0].clone()
        for name, tensor in models.tensors.items()
        if name.startswith(prefix)
    }


def present(configuration: Configuration) -> list[tuple[int, ...]]:
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        return [record.clients for (record,) in loop.rounds()]


def assert_close(found: Fleet, expected: dict[str, Tensor], prefix: str = "") -> None:
    """The first row of a fleet is what a plain loop ended with."""
    assert expected
    for name, tensor in expected.items():
        torch.testing.assert_close(found[prefix + name][0], tensor, rtol=1e-4, atol=1e-5)
