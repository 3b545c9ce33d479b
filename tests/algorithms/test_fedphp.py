from __future__ import annotations

import numpy as np
import pytest
import torch

import comity.algorithms.fedphp
from comity.algorithms import make
from comity.algorithms.fedphp import Inherited
from comity.algorithms.parts import mmd
from comity.core.phases import View
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import (
    ANSWERS,
    assert_holds,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    learn,
    network_of,
    objective_of,
    preferences_of,
    tiny,
)


def inherited(turns: int, share: float = 1.0, **settings) -> dict[str, torch.Tensor]:
    """Return the historical model (3, 0) at θ = (1, 2) after ``turns`` of 100 rounds."""
    (phase,) = make("fedphp", settings).phases(ANSWERS)
    assert phase.after is not None
    tensors = {
        "rounds": torch.tensor(float(turns)),
        "model.t": torch.tensor([1.0, 2.0]),
        "history.t": torch.tensor([3.0, 0.0]),
    }
    return dict(phase.after(tensors, {}, View({}, rounds=100, participation=share)))


@pytest.mark.parametrize(
    ("turns", "share", "mu", "wanted"),
    [
        (50, 1.0, 0.9, [1.9, 1.1]),  # μ_t = 0.45
        (100, 1.0, 0.9, [2.8, 0.2]),
        (10, 1.0, 0.1, [1.02, 1.98]),
        (1, 1.0, 0.9, [1.018, 1.982]),
        (0, 1.0, 0.9, [1.0, 2.0]),  # nothing was there to be kept
        (5, 0.1, 0.9, [1.9, 1.1]),  # half of the ten turns that a client may expect
        (12, 0.1, 0.9, [2.8, 0.2]),  # more of them than expected
    ],
)
def test_the_historical_model_by_hand(turns, share, mu, wanted):
    found = inherited(turns, share, momentum=mu)
    torch.testing.assert_close(found["history.t"], torch.tensor(wanted))
    assert found["rounds"].item() == turns + 1
    assert "model.t" not in found


def test_the_loss_by_hand(monkeypatch):
    """(1 − λ) 1.0 + λ 0.5, from the first turn on: the first history is the initial model."""
    monkeypatch.setattr(comity.algorithms.fedphp, "mmd", lambda x, y: torch.tensor(0.5))
    (phase,) = make("fedphp", {"strength": 0.1}).phases(ANSWERS)
    for turn, wanted in ((1.0, 0.95), (2.0, 0.95), (7.0, 0.95)):
        view = View(
            {}, forward=lambda *_: torch.zeros(1, 10), objective=lambda *_: torch.tensor(1.0)
        )
        tensors = {"rounds": torch.tensor(turn - 1), "model.head.weight": torch.zeros(2, 4)}
        found = phase.loss(tensors, {"inputs": torch.zeros(1, 4)}, view)
        torch.testing.assert_close(found, torch.tensor(wanted))


def test_two_rounds_are_those_of_plain_pytorch():
    """Features are taught by the initial model, then by what the model was after the first."""
    algorithm = make("fedphp", {"strength": 0.4, "momentum": 0.6})
    learner, models, _, problem = fleet_of(
        algorithm, ANSWERS, rounds=4, optimiser="sgd", learning_rate=0.2
    )
    for round in (1, 2):
        if round == 2:  # as if something had arrived
            for name in models.group("model.*"):
                models[name].mul_(0.5)
        start = learn(algorithm, learner, models, problem, round=round)
        for client in range(3):
            network = network_of(problem, start, client, "model.body.", "model.head.")
            history = network_of(problem, start, client, "history.body.", "history.head.")
            descent = torch.optim.SGD(network.parameters(), 0.2)
            strength = 0.4
            for batch in batches_of(problem, client, 3, 16, 0, round):
                features = network[:-1](batch["inputs"])
                old = history[:-1](batch["inputs"]).detach()
                loss = objective_of(problem, client)(network[-1](features), batch)
                descent.zero_grad()
                ((1 - strength) * loss + strength * mmd(features, old)).backward()
                descent.step()
            mu = 0.6 * (round - 1) / 4
            mixed = {
                name: mu * tensor + (1 - mu) * network.state_dict()[name]
                for name, tensor in history.state_dict().items()
            }
            history.load_state_dict(mixed)
            assert_holds(models, client, "model.body.", network[:-1])
            assert_holds(models, client, "model.head.", network[-1])
            assert_holds(models, client, "history.body.", history[:-1])
            assert_holds(models, client, "history.head.", history[-1])
            assert models["rounds"][client] == round


def test_the_model_travels_and_its_history_does_not():
    assert_sends("fedphp", {"model"})


def test_historical_models_stay_and_wait_for_their_client():
    assert_private_stays("fedphp", "history.", "rounds")


def test_a_client_predicts_with_its_history_and_before_its_first_round_with_what_it_received():
    algorithm = make("fedphp", {})
    _, _, module, problem = fleet_of(algorithm, ANSWERS)
    assert isinstance(module, Inherited)
    with torch.no_grad():
        for tensor in module.model.parameters():
            tensor.mul_(2.0)
    inputs = problem.columns()["inputs"][:5]
    module.eval()
    for rounds, part in ((0.0, module.model), (1.0, module.history), (9.0, module.history)):
        module.rounds.fill_(rounds)
        assert torch.equal(module(inputs), part(inputs))
        predictor = algorithm.predictor(module, preferences_of(problem)[0])
        assert torch.equal(predictor(inputs), part(inputs))


def test_the_last_delivery_takes_no_personal_model_away():
    """Clients with different data each keep what they learned; the global model is a mean."""
    configuration = tiny(problem="tiny-answers", algorithm="fedphp", chunk=4, keep="last")
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        before = engine.models(kept=False).clone()
        values = engine.test(kept=False)
        loop.finish()
        after = engine.models(kept=False)
        np.testing.assert_array_equal(engine.test(kept=False), values)
    assert not torch.equal(after["model.head.weight"], before["model.head.weight"])
    assert torch.equal(after["history.head.weight"], before["history.head.weight"])
