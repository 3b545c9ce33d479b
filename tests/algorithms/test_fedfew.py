from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from comity.algorithms import Round, make
from comity.algorithms.fedfew import Few, shares
from comity.core.fleet import Fleet
from comity.core.mixing import mixed
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import (
    ANSWERS,
    assert_holds,
    assert_sends,
    batches_of,
    fleet_of,
    learn,
    network_of,
    objective_of,
    tiny,
)
from tests.vectors import FEDFEW

SETTINGS = {"models": 2, "mu": FEDFEW["mu"]}


def numbers(values: list[list[float]]) -> Fleet:
    """One number per client and model."""
    columns = torch.tensor(values).T
    return Fleet({f"models.{k}.t": column[:, None] for k, column in enumerate(columns)})


def vector_round(clients: int = 3) -> Round:
    start = numbers([FEDFEW["models"]] * clients)
    sent = start + numbers(FEDFEW["updates"][:clients])
    told = {"model_losses": np.array(FEDFEW["losses"][:clients])}
    ids, sizes = tuple(range(clients)), np.array(FEDFEW["public_code_sizes"][:clients])
    return Round(1, ids, (0, 1, 2), sent, start, sizes, told, asked=clients)


def given(settings: dict, round: Round) -> list[float]:
    """The models that everybody gets."""
    models, route = mixed(make("fedfew", settings).mix(round), round.sent, round.start)
    assert route == dict.fromkeys(round.clients, 0)
    return [models[f"models.{k}.t"].item() for k in range(2)]


def objective(models: np.ndarray) -> float:
    """The paper's objective of three clients with losses (θ − optimum)²/2."""
    losses = (models[None] - np.array(FEDFEW["optima"])[:, None]) ** 2 / 2
    mu = FEDFEW["mu"]
    return float(mu * logsumexp(-logsumexp(-losses / mu, axis=1)))


def test_shares_of_the_specification():
    importance, match = shares(np.array(FEDFEW["losses"]), FEDFEW["mu"])
    np.testing.assert_allclose(np.exp(importance), FEDFEW["importance"], atol=1e-6)
    np.testing.assert_allclose(np.exp(match), FEDFEW["match"], atol=1e-6)
    np.testing.assert_allclose(
        np.exp(importance)[:, None] * np.exp(match), FEDFEW["weights"], atol=1e-6
    )
    importance, match = shares(np.full((3, 2), 0.7), 0.01)
    np.testing.assert_allclose(np.exp(match), 0.5)
    np.testing.assert_allclose(np.exp(importance), 1 / 3)


def test_the_server_steps_along_the_gradient_of_the_objective():
    """Weights times gradients are the slope of the objective, by finite differences."""
    models = np.array(FEDFEW["models"])
    assert objective(models) == pytest.approx(FEDFEW["value"], abs=1e-6)
    slope = [(objective(models + h) - objective(models - h)) / 2e-6 for h in np.eye(2) * 1e-6]
    np.testing.assert_allclose(slope, FEDFEW["gradient"], atol=1e-5)
    # one step of length 1 at every client: sent − start is minus its gradient
    round = vector_round()
    gradients = models[None] - np.array(FEDFEW["optima"])[:, None]
    round = replace(round, sent=round.start + numbers((-gradients).tolist()))
    np.testing.assert_allclose(given(SETTINGS, round), models - np.array(slope), atol=1e-5)


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ("raw", FEDFEW["new_models"]),
        ("normalised", FEDFEW["new_models_if_columns_normalised"]),
    ],
)
def test_models_of_the_specification(columns, wanted):
    found = given({**SETTINGS, "columns": columns}, vector_round())
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_weights_of_the_public_code():
    mixings = make("fedfew", {**SETTINGS, "losses": "shares"}).mix(vector_round())
    found = np.concatenate([mixing.weights for mixing in mixings.values()]).T
    np.testing.assert_allclose(found, FEDFEW["public_code_weights"], atol=1e-6)


def test_importance_is_over_those_present():
    algorithm = make("fedfew", SETTINGS)
    mixings = algorithm.mix(vector_round(clients=2))
    total = sum(mixing.weights.sum() for mixing in mixings.values())
    assert total == pytest.approx(1.0)
    wanted = np.array(FEDFEW["importance"][:2]) / sum(FEDFEW["importance"][:2])
    found = algorithm.diagnostics()
    np.testing.assert_allclose(list(found["importance"].values()), wanted, atol=1e-5)
    assert list(found["match"]) == ["0", "1"]
    np.testing.assert_allclose(found["match"]["1"], FEDFEW["match"][1], atol=1e-6)
    assert algorithm.state() == {}


def test_one_model_is_fedavg_by_importance():
    start = Fleet({"models.0.t": torch.tensor([[0.5]] * 3)})
    sent = start + Fleet({"models.0.t": torch.tensor([[-0.05], [0.05], [0.25]])})
    losses = np.array([[0.1], [0.3], [0.2]])
    round = replace(vector_round(), sent=sent, start=start, statistics={"model_losses": losses})
    models, _ = mixed(make("fedfew", {"models": 1, "mu": 0.2}).mix(round), sent, start)
    weights = np.exp(losses[:, 0] / 0.2)
    wanted = 0.5 + weights @ [-0.05, 0.05, 0.25] / weights.sum()
    assert models["models.0.t"].item() == pytest.approx(wanted, abs=1e-6)


def test_tiny_mu_does_not_overflow():
    importance, match = shares(np.array([[3.0, 900.0], [2.0, 1.0]]), 1e-3)
    np.testing.assert_allclose(np.exp(importance), [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(np.exp(match), [[1.0, 0.0], [0.0, 1.0]], atol=1e-12)


def test_models_start_different_and_alike_at_all_clients():
    _, models, module, _ = fleet_of("fedfew", ANSWERS)
    assert isinstance(module, Few)
    weights = [models[f"models.{k}.0.weight"] for k in range(3)]
    for weight in weights:
        assert torch.equal(weight[0], weight[2])
    assert not torch.allclose(weights[0], weights[1])
    assert not torch.allclose(weights[1], weights[2])


def test_a_round_is_that_of_plain_pytorch():
    """Three networks, each trained alone by Adam; losses and choice are of the received ones."""
    algorithm = make("fedfew", {})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, learning_rate=0.02)
    rows = problem.client_rows()
    start = learn(algorithm, learner, models, problem)
    for client in range(3):
        lose, columns = objective_of(problem, client), problem.columns()
        index = torch.from_numpy(rows[client].train)
        everything = {k: v[index] for k, v in columns.items()} | {"weight": torch.ones(len(index))}
        losses = []
        for k in range(3):
            network = network_of(problem, start, client, f"models.{k}.")
            losses.append(lose(network(everything["inputs"]), everything).item())
            descent = torch.optim.Adam(network.parameters(), 0.02)
            for batch in batches_of(problem, client, 3, 16):
                descent.zero_grad()
                lose(network(batch["inputs"]), batch).backward()
                descent.step()
            assert_holds(models, client, f"models.{k}.", network)
        np.testing.assert_allclose(models["model_losses"][client], losses, rtol=1e-4)
        assert models["chosen"][client].argmax() == int(np.argmin(losses))
        assert models["chosen"][client].sum() == 1


def test_the_chosen_model_predicts():
    _, _, module, problem = fleet_of("fedfew", ANSWERS)
    assert isinstance(module, Few)
    inputs = problem.columns()["inputs"][:5]
    for k in range(3):
        module.chosen.data.copy_(torch.eye(3)[k])
        predictor = make("fedfew", {}).predictor(module, np.array([0.5, 0.5]))
        assert predictor is module.models[k]
        torch.testing.assert_close(module(inputs), module.models[k](inputs))
        torch.testing.assert_close(module(inputs, True)[k], module.models[k](inputs))


def test_all_models_and_their_losses_travel_and_the_choice_stays():
    assert_sends("fedfew", {"models"}, ("model_losses",))


def test_every_client_chooses_again_after_the_last_delivery_whoever_trained():
    values = {"problem": "tiny-answers", "algorithm": "fedfew", "keep": "last"}
    configuration = tiny(**values, fine_tune="none", participation=0.5, chunk=4, rounds=3)
    problem, preferences = configuration.get_problem(), configuration.get_preferences()
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        list(loop.rounds())
        loop.finish()
        models = engine.models(kept=False)
    for client, share in enumerate(problem.client_rows()):
        index = torch.from_numpy(share.train)
        batch = {k: v[index] for k, v in problem.columns().items()}
        batch["weight"] = torch.ones(len(index))
        networks = [network_of(problem, models, client, f"models.{k}.") for k in range(3)]
        losses = [problem.losses(network(batch["inputs"]), batch) for network in networks]
        weights = torch.from_numpy(preferences[client]).float()
        best = int(torch.stack([(weights * one).sum() for one in losses]).argmin())
        assert int(models["chosen"][client].argmax()) == best
    for name in models:
        if name.startswith("models."):
            assert torch.equal(models[name][0], models[name][3]), "one server, the same K models"
