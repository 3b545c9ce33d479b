from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.algorithms import make
from comity.algorithms.fedamp import attention
from comity.core.fleet import Fleet
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from tests.tiny import (
    ANSWERS,
    Number,
    assert_holds,
    assert_private_stays,
    assert_sends,
    batches_of,
    fleet_of,
    held,
    learn,
    network_of,
    objective_of,
    one_step,
    tiny,
)
from tests.vectors import fleet, round_of

MODELS = [[0.0, 0.0], [0.0, 1.0], [3.0, 4.0]]
XI = [
    [0.848366, 0.151633, 1e-06],
    [0.151633, 0.848336, 3.1e-05],
    [1e-06, 3.1e-05, 0.999968],
]
CLOUD = [[3e-06, 0.151636], [9.3e-05, 0.84846], [2.999905, 3.999904]]


# -- the server ----------------------------------------------------------------------------


def test_attention_and_cloud_models_by_hand():
    sent = fleet(MODELS)
    algorithm = make("fedamp", {"step": 0.5, "sigma": 2.0, "relative": False})
    mixing = algorithm.mix(round_of(sent, sent))["*"]
    np.testing.assert_allclose(mixing.weights, XI, atol=1e-6)
    np.testing.assert_allclose(sent.mix(mixing.weights)["0"], CLOUD, atol=1e-5)
    assert mixing.route == {0: 0, 1: 1, 2: 2}


def test_distances_count_over_all_tensors():
    whole, cut = fleet(MODELS), fleet([[0.0], [0.0], [3.0]], [[0.0], [1.0], [4.0]])
    algorithm = make("fedamp", {})
    weights = [algorithm.mix(round_of(sent, sent))["*"].weights for sent in (whole, cut)]
    np.testing.assert_allclose(*weights)


def test_others_never_count_for_more_than_one():
    """Where α (m − 1) / σ > 1 nothing would be left for the client itself, or less."""
    squares = np.zeros((4, 4))
    found = attention(squares, step=2.0, sigma=0.5)
    np.testing.assert_allclose(found, (1 - np.eye(4)) / 3)


def test_where_most_models_are_equal_similarity_counts_in_the_others_distances():
    """Six of ten pairs are equal, so the median is 0; the others are 4 apart, so σ is 4, α 2."""
    sent = fleet([[0.0], [0.0], [0.0], [0.0], [2.0]])
    weights = make("fedamp", {"step": 0.5}).mix(round_of(sent, sent))["*"].weights
    near, far = 0.5, 0.5 * np.exp(-1)
    np.testing.assert_allclose(weights[4], [far, far, far, far, 1 - 4 * far])
    np.testing.assert_allclose(weights[0, 1:], np.array([near] * 3 + [far]) / (3 * near + far))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_relative_similarity_does_not_know_how_large_models_are(scale):
    """σ counts in median squared distances: (1, 18, 25), so 18."""
    sent = fleet(np.array(MODELS) * scale)
    found = make("fedamp", {"step": 0.5}).mix(round_of(sent, sent))["*"].weights
    squares = np.array([[0, 1, 25], [1, 0, 18], [25, 18, 0]])
    np.testing.assert_allclose(found, attention(squares, 0.5 * 18, 18.0), rtol=1e-4)
    assert found[0, 1] > 0.4
    assert found[0, 2] > 0.1


def test_equal_models_are_the_same_whatever_the_scale():
    sent = fleet([[1.0, 2.0]] * 3)
    found = make("fedamp", {"step": 0.5}).mix(round_of(sent, sent))["*"]
    np.testing.assert_allclose(sent.mix(found.weights)["0"], [[1.0, 2.0]] * 3)


# -- clients -------------------------------------------------------------------------------


def test_a_clients_step_by_hand():
    """θ ← θ − η (g + λ / α (θ − u))."""
    algorithm = make("fedamp", {"pull": 1.0, "step": 0.5})
    module = algorithm.build(Number(0.0, 0.0), ANSWERS)
    tensors = {**held(module), "anchor.t": torch.tensor(CLOUD[0])}
    (phase,) = algorithm.phases(ANSWERS)
    slope = torch.tensor([0.1, -0.2])
    found = one_step(phase, module, tensors, lambda answer: (slope * answer).sum(), 0.1)
    wanted = torch.tensor([-0.009999, 0.050327])
    torch.testing.assert_close(found["model.t"], wanted, rtol=0, atol=2e-6)
    assert torch.equal(found["anchor.t"], tensors["anchor.t"])


def test_a_round_is_that_of_plain_pytorch():
    algorithm = make("fedamp", {"pull": 0.3, "step": 0.5})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    for name in models.group("anchor.*"):
        models[name].add_(0.1 * torch.arange(3.0).reshape(-1, *[1] * (models[name].dim() - 1)))
    start = learn(algorithm, learner, models, problem)
    for client in range(3):
        network = network_of(problem, start, client, "model.")
        anchor = network_of(problem, start, client, "anchor.")
        descent = torch.optim.SGD(network.parameters(), 0.1)
        for batch in batches_of(problem, client, 3, 16):
            pairs = zip(network.parameters(), anchor.parameters(), strict=True)
            away = sum((p - u.detach()).square().sum() for p, u in pairs)
            descent.zero_grad()
            loss = objective_of(problem, client)(network(batch["inputs"]), batch)
            (loss + 0.3 / (2 * 0.5) * away).backward()
            descent.step()
        assert_holds(models, client, "model.", network)
        assert_holds(models, client, "anchor.", anchor)


def test_cloud_models_land_as_anchors_and_clients_go_on_from_their_own():
    configuration = tiny(problem="tiny-answers", algorithm="fedamp", chunk=4, rounds=2)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        loop = RoundLoop(engine, federation)
        next(loop.rounds())
        own = engine.models(kept=False).clone()
        request, _ = federation.request()
        assert request.models is not None
        engine.round(request)
        cloud, now = request.models, engine.models(kept=False)
        for name in cloud:
            place = name.replace("model.", "anchor.")
            torch.testing.assert_close(now[place], cloud[name])
            assert not torch.equal(cloud[name], own[name])
    assert isinstance(cloud, Fleet)


def test_the_model_travels_and_its_anchor_does_not():
    assert_sends("fedamp", {"model"})


def test_models_are_never_overwritten():
    assert_private_stays("fedamp", "model.")


def test_what_predicts_is_the_model_alone():
    algorithm = make("fedamp", {})
    module = algorithm.build(ANSWERS.model(), ANSWERS)
    plain = algorithm.predictor(module, np.array([0.5, 0.5]))
    assert set(plain.state_dict()) == set(ANSWERS.model().state_dict())
