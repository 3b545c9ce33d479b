from __future__ import annotations

import pytest
import torch

import comity.algorithms.fedphp
from comity.algorithms import make
from comity.algorithms.parts import mmd
from comity.core.phases import View
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
)


def inherited(turn: int, **settings) -> dict[str, torch.Tensor]:
    """What becomes of the historical model (3, 0) after a client's turn, of 100, at θ = (1, 2)."""
    (phase,) = make("fedphp", settings).phases(ANSWERS)
    assert phase.after is not None
    tensors = {
        "rounds": torch.tensor(turn - 1.0),
        "model.t": torch.tensor([1.0, 2.0]),
        "history.t": torch.tensor([3.0, 0.0]),
    }
    return dict(phase.after(tensors, {}, View({}, rounds=100)))


@pytest.mark.parametrize(
    ("turn", "mu", "wanted"),
    [
        (50, 0.9, [1.9, 1.1]),  # μ_t = 0.45
        (100, 0.9, [2.8, 0.2]),
        (10, 0.1, [1.02, 1.98]),
        (1, 0.9, [1.0, 2.0]),  # nothing was there to be kept
    ],
)
def test_the_historical_model_by_hand(turn, mu, wanted):
    found = inherited(turn, momentum=mu)
    torch.testing.assert_close(found["history.t"], torch.tensor(wanted))
    assert found["rounds"].item() == turn
    assert "model.t" not in found


def test_the_loss_by_hand(monkeypatch):
    """(1 − λ) 1.0 + λ 0.5, from a client's second turn on."""
    monkeypatch.setattr(comity.algorithms.fedphp, "mmd", lambda x, y: torch.tensor(0.5))
    (phase,) = make("fedphp", {"strength": 0.1}).phases(ANSWERS)
    for turn, wanted in ((1.0, 1.0), (2.0, 0.95), (7.0, 0.95)):
        view = View(
            {}, forward=lambda *_: torch.zeros(1, 10), objective=lambda *_: torch.tensor(1.0)
        )
        tensors = {"rounds": torch.tensor(turn - 1), "model.head.weight": torch.zeros(2, 4)}
        found = phase.loss(tensors, {"inputs": torch.zeros(1, 4)}, view)
        torch.testing.assert_close(found, torch.tensor(wanted))


def test_two_rounds_are_those_of_plain_pytorch():
    """In the second, features are taught by what the model has been after the first."""
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
            strength = 0.0 if round == 1 else 0.4
            for batch in batches_of(problem, client, 3, 16, 0, round):
                features = network[:-1](batch["inputs"])
                old = history[:-1](batch["inputs"]).detach()
                loss = objective_of(problem, client)(network[-1](features), batch)
                descent.zero_grad()
                ((1 - strength) * loss + strength * mmd(features, old)).backward()
                descent.step()
            mu = 0.0 if round == 1 else 0.6 * 2 / 4
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
