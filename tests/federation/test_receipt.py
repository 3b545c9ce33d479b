"""What a client changes of its own when models reach it, before it trains or without training."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from comity.algorithms import Need, algorithm, registry
from comity.algorithms.fedavg import FedAvg
from comity.core.fleet import Fleet
from comity.core.phases import Batch, Phase, Update, View
from comity.core.storage import strip_prefix
from comity.core.typing import Tree
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop, SimulatedLoop
from comity.federation.server import Server
from comity.problems import Problem
from tests.tiny import tiny


class Keeping(nn.Module):
    """A model that travels, a private copy that predicts, the count and mean of all samples."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.own = model, deepcopy(model).requires_grad_(False)
        self.receipts = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.seen = nn.Parameter(torch.zeros(2, 4), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = (self.model if self.training else self.own)(inputs)
        return outputs


class TakingNote(FedAvg):
    """own ← factor · received, with each delivery."""

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)

    factor: float = 0.5

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Keeping(model)

    def phases(self, problem: Problem) -> list[Phase]:
        return [Phase(train=("model.*",))]

    def on_receipt(self, problem: Problem) -> Update:
        def noted(parameters: Tree, everything: Batch, view: View) -> Tree:
            model = strip_prefix(parameters, "model.")
            means = [
                (part["inputs"] * part["weight"][:, None]).sum(dim=0) / part["weight"].sum()
                for part in (everything, view.validation)
            ]
            own = {f"own.{name}": self.factor * tensor for name, tensor in model.items()}
            return {"receipts": parameters["receipts"] + 1, "seen": torch.stack(means), **own}

        return noted


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """Register the algorithm for these tests alone."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    register = algorithm(
        "taking-note",
        title="Half of what was received",
        paper="a test",
        place="personalised models",
        method="a private copy made on receipt",
        communication="the model, both ways",
    )
    register(TakingNote)


def noting(**values: Any) -> Any:
    return tiny(**{"problem": "tiny-answers", "algorithm": "taking-note", "chunk": 4, **values})


def assert_noted(models: Fleet, received: Fleet, clients: tuple[int, ...]) -> None:
    for place, client in enumerate(clients):
        for name in received:
            own = models[name.replace("model.", "own.")][client]
            torch.testing.assert_close(own, 0.5 * received[name][place])


def test_every_delivery_is_noted_the_last_one_included():
    """With the received model and the client's own samples; not before something is delivered."""
    configuration = noting(participation=0.5, rounds=6, keep="last")
    with EmbeddedEngine(configuration) as engine:
        server, asked = Server(configuration), np.zeros(4)
        loop = RoundLoop(engine, server)
        initial = engine.models(kept=False).clone()
        request, _ = server.request()
        assert request.models is None
        for (record,) in loop.rounds():
            models = engine.models(kept=False)
            asked[list(record.clients)] += record.round > 1
            np.testing.assert_array_equal(models["receipts"].numpy(), asked)
            if request.models is not None:
                assert_noted(models, request.models, request.clients)
            request = server.request()[0] if record.round < 6 else server.last_request()[0]
        assert len(set(asked.tolist())) > 1, "somebody was absent more often than others"
        loop.finish()
        models = engine.models(kept=False)
    np.testing.assert_array_equal(models["receipts"].numpy(), asked + 1)
    assert request.models is not None
    assert_noted(models, request.models, request.clients)
    problem = configuration.get_problem()
    for client, rows in enumerate(problem.client_rows()):
        for place, part in enumerate((rows.train, rows.validation)):
            mean = problem.columns()["inputs"][part].mean(dim=0)
            torch.testing.assert_close(models["seen"][client, place], mean)
    assert torch.equal(initial["receipts"], torch.zeros(4))


def test_what_was_changed_on_receipt_is_what_is_validated():
    """At factor 0 the private copy gives one answer to everything, so all scores are trivial."""
    vectors = {}
    for factor in (1.0, 0.0):
        configuration = noting(keep="last", **{"taking-note": {"factor": factor}})
        with EmbeddedEngine(configuration) as engine:
            loop = SimulatedLoop(engine, Server(configuration))
            list(loop.rounds())
            before = engine.models(kept=False).clone()
            vectors[factor] = loop.evaluate()
            for name, tensor in engine.models(kept=False).tensors.items():
                assert torch.equal(tensor, before[name]), "an evaluation changes nothing"
            loop.finish()
            np.testing.assert_array_equal(engine.test(False, "validation"), vectors[factor])
    problem = configuration.get_problem()
    for client, rows in enumerate(problem.client_rows()):
        label = problem.columns()["label"][rows.validation]
        assert vectors[0.0][client, 0] == pytest.approx(float((label == 0).float().mean()))
    assert (vectors[1.0][:, 0] != vectors[0.0][:, 0]).any()


def test_who_declines_a_delivery_undoes_what_it_changed():
    """What is made of the delivery answers alike to everything; a guard keeps what did better."""
    weights = [[1.0, 0.0]] * 4
    configuration = noting(
        guard=True, rounds=1, preferences=weights, **{"taking-note": {"factor": 0.0}}
    )
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        before = engine.models(kept=False).clone()
        loop.finish()
        after, declined = engine.models(kept=False), engine.metrics((0, 1, 2, 3)).declined
    assert set(declined.tolist()) == {True, False}
    for client in range(4):
        assert after["receipts"][client] == float(not declined[client])
        for name in before:
            if declined[client]:
                assert torch.equal(after[name][client], before[name][client]), name
            elif name.startswith("own."):
                assert not after[name][client].any()


def test_an_update_on_receipt_needs_losses():
    class Undeclared(FedAvg):
        def on_receipt(self, problem: Problem) -> Update:
            return lambda parameters, everything, view: {}

    words = dict.fromkeys(("title", "paper", "method", "communication"), "x")
    with pytest.raises(TypeError, match="an on_receipt of its own"):
        algorithm("undeclared", place="global model", **words)(Undeclared)


def test_one_fleet_or_many():
    ends = []
    for chunk in (4, 1):
        configuration = noting(chunk=chunk, rounds=3, sizes="8,4,2,1")
        with EmbeddedEngine(configuration) as engine:
            loop = RoundLoop(engine, Server(configuration))
            list(loop.rounds())
            loop.finish()
            ends.append(engine.models(kept=False).clone())
    for name in ends[0]:
        torch.testing.assert_close(ends[0][name], ends[1][name], rtol=1e-4, atol=1e-5)
