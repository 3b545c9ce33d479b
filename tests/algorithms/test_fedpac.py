from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from comity.algorithms import Round, Survey, make
from comity.algorithms.fedpac import Aligned, by_class, combination
from comity.core.fleet import Fleet
from comity.core.phases import View
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems.data import batch_of
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

MOMENTS = np.array([[[0.6, 0.0], [0.0, 0.4]], [[0.5, 0.1], [0.0, 0.4]], [[0.0, 0.5], [0.5, 0.0]]])
VARIANCES = np.array([0.02, 0.01, 0.03])
ALPHA = [[0.6, 0.4, 0.0], [0.256831, 0.70765, 0.035519], [0.0, 0.034884, 0.965116]]


def products(moments: np.ndarray) -> np.ndarray:
    flat = moments.reshape(len(moments), -1)
    return flat @ flat.T


# -- what clients say ----------------------------------------------------------------------


@pytest.mark.parametrize("padding", [0, 2])
def test_moments_and_variance_by_hand(padding):
    """Features 1 and 3 of the first class, 2 of the second; what only fills up has no say."""
    module = Aligned(nn.Identity(), nn.Linear(1, 2))
    everything = {
        "inputs": torch.tensor([[1.0], [3.0], [2.0], *[[9.0]] * padding]),
        "label": torch.tensor([0.0, 0.0, 1.0, *[1.0] * padding]),
        "weight": torch.tensor([1.0, 1.0, 1.0, *[0.0] * padding]),
    }
    view = View({}, forward=lambda tensors, *inputs: functional_call(module, tensors, inputs))
    tensors = {name: t.detach() for name, t in module.named_parameters()}
    found = make("fedpac", {}).survey_client(ANSWERS)(tensors, everything, view)
    wanted = torch.tensor([[1.333333], [0.666667]])
    torch.testing.assert_close(found["moments"], wanted, rtol=0, atol=1e-5)
    torch.testing.assert_close(found["variance"], torch.tensor(0.814815), rtol=0, atol=1e-5)


def test_a_class_that_a_client_does_not_have_has_no_features():
    batch = {"label": torch.tensor([1.0, 1.0]), "weight": torch.ones(2)}
    sums, counts = by_class(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), batch, 3)
    assert sums.tolist() == [[0, 0], [4, 6], [0, 0]]
    assert counts.tolist() == [0, 2, 0]


# -- the server ----------------------------------------------------------------------------


def test_combinations_of_heads_by_hand():
    found = [combination(products(MOMENTS), VARIANCES, client) for client in range(3)]
    np.testing.assert_allclose(found, ALPHA, atol=1e-4)


def test_the_problem_that_a_combination_solves_by_hand():
    """diag V + D of the first client, whose minimum on the simplex is its combination."""
    own = MOMENTS[0]
    apart = [[np.sum((own - j) * (own - k)) for k in MOMENTS] for j in MOMENTS]
    problem = np.diag(VARIANCES) + apart
    wanted = [[0.02, 0.0, 0.0], [0.0, 0.03, 0.11], [0.0, 0.11, 1.05]]
    np.testing.assert_allclose(problem, wanted, atol=1e-9)
    alpha = combination(products(MOMENTS), VARIANCES, 0)
    rng = np.random.default_rng(1)
    others = rng.dirichlet(np.ones(3), 200)
    values = np.einsum("ni,ij,nj->n", others, problem, others)
    assert alpha @ problem @ alpha <= values.min() + 1e-8


def test_what_is_next_to_nothing_is_left_out_and_the_rest_made_whole():
    """With equal moments weights are as 1 / V: 0.49988, 0.49988 and 0.00025."""
    alike = np.ones((3, 2, 2))
    found = combination(products(alike), np.array([1.0, 1.0, 2000.0]), 2)
    np.testing.assert_allclose(found, [0.5, 0.5, 0.0], atol=1e-6)
    assert found[2] == 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


def survey_of(clients: tuple[int, ...]) -> Survey:
    places = list(clients)
    values = {"moments": MOMENTS[places], "variance": VARIANCES[places]}
    return Survey(clients, values)


def round_with(clients: tuple[int, ...], everyone: tuple[int, ...]) -> Round:
    n = len(clients)
    sent = Fleet({"body.a": torch.eye(n), "head.a": torch.eye(n)})
    told = {
        "counts": np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]])[:n],
        "centroids": np.array([[[1.0, 2.0], [0, 0]], [[5.0, 6.0], [0, 0]], [[3.0, 4.0], [0, 0]]])[
            :n
        ],
    }
    return Round(1, clients, everyone, sent, sent, np.array([1.0, 2.0, 5.0])[:n], told)


def test_participants_get_heads_of_their_own_and_all_one_body():
    algorithm = make("fedpac", {})
    algorithm.broadcast(survey_of((0, 1, 2)))
    mixings = algorithm.mix(round_with((0, 1, 2), (0, 1, 2, 3)))
    heads, body = mixings["head.*"], mixings["*"]
    np.testing.assert_allclose(body.weights, [[0.125, 0.25, 0.625]])
    for client in range(3):
        np.testing.assert_allclose(heads.weights[heads.route[client]], ALPHA[client], atol=1e-4)
    assert 3 not in heads.route, "an absent client keeps its head"
    assert set(body.route) == {0, 1, 2, 3}


def test_a_participant_without_moments_keeps_its_head_and_gives_none():
    """The features of client 1 were not finite; its trained model is."""
    algorithm = make("fedpac", {})
    algorithm.broadcast(survey_of((0, 2)))
    heads = algorithm.mix(round_with((0, 1, 2), (0, 1, 2)))["head.*"]
    pair = [0, 2]
    assert heads.weights[heads.route[1]].tolist() == [0, 1, 0]
    for place, client in enumerate(pair):
        wanted = combination(products(MOMENTS[pair]), VARIANCES[pair], place)
        np.testing.assert_allclose(heads.weights[heads.route[client]][pair], wanted)
    algorithm.broadcast(survey_of(()))
    heads = algorithm.mix(round_with((0, 1, 2), (0, 1, 2)))["head.*"]
    np.testing.assert_array_equal(heads.weights, np.eye(3))


def test_heads_are_given_by_name_and_not_by_place():
    """Who is present, and in which order names come, must not give anybody another's head."""
    algorithm = make("fedpac", {})
    algorithm.broadcast(survey_of((0, 2)))
    mixings = algorithm.mix(round_with((0, 2), (0, 1, 2)))
    heads = mixings["head.*"]
    pair = [0, 2]
    for place, client in enumerate(pair):
        wanted = combination(products(MOMENTS[pair]), VARIANCES[pair], place)
        np.testing.assert_allclose(heads.weights[heads.route[client]], wanted)
        assert wanted[place] > 0.9


def test_centroids_are_weighed_by_samples_and_told_in_the_next_round():
    """(3 (1, 2) + 1 (5, 6) + 2 (3, 4)) / 6; nobody has the second class, so it is not known."""
    algorithm = make("fedpac", {})
    first = algorithm.broadcast(survey_of((0, 1, 2)))
    assert not first["known"].any()
    assert first["centroids"].shape == (2, 2)
    algorithm.mix(round_with((0, 1, 2), (0, 1, 2)))
    second = algorithm.broadcast(survey_of((0, 1, 2)))
    np.testing.assert_allclose(second["centroids"], [[14 / 6, 20 / 6], [0, 0]])
    np.testing.assert_array_equal(second["known"], [1.0, 0.0])
    restored = make("fedpac", {})
    restored.load(algorithm.state())
    np.testing.assert_array_equal(
        restored.broadcast(survey_of((0,)))["centroids"], second["centroids"]
    )


# -- clients -------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [(0.0, 0.0), (1.0, 1.0), (1.0, 0.0)])
def test_a_round_is_that_of_plain_pytorch(known):
    """First the head; then the body, whose features are pulled to their classes' centroids."""
    algorithm = make("fedpac", {"strength": 0.7, "head_passes": 2.0})
    learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd", learning_rate=0.1)
    centroids = torch.randn(2, 4, generator=torch.Generator().manual_seed(3))
    told = {
        "centroids": np.repeat(centroids.numpy()[None], 3, 0),
        "known": np.repeat(np.array([known]), 3, 0),
    }
    start = learn(algorithm, learner, models, problem, **told)
    for client in range(3):
        network = network_of(problem, start, client, "body.", "head.")
        body, head, lose = network[:-1], network[-1], objective_of(problem, client)
        descent = torch.optim.SGD(head.parameters(), 0.1)
        passes = 2 * -(-len(problem.client_rows()[client].train) // 16)  # whatever a round has
        for batch in batches_of(problem, client, passes, 16, 0):
            network.zero_grad()
            lose(network(batch["inputs"]), batch).backward()
            descent.step()
        descent = torch.optim.SGD(body.parameters(), 0.1)
        for batch in batches_of(problem, client, 3, 16, 1):
            features, label = body(batch["inputs"]), batch["label"].long()
            inside = torch.tensor(known)[label].bool()
            away = (features - centroids[label]).square()[inside].sum() / features.numel()
            network.zero_grad()
            (lose(head(features), batch) + 0.7 * away).backward()
            descent.step()
        assert_holds(models, client, "body.", body)
        assert_holds(models, client, "head.", head)
        everything = batch_of(problem.columns(), problem.client_rows()[client].train)
        features = body(everything["inputs"]).detach()
        for label in (0, 1):
            own = everything["label"] == label
            assert models["counts"][client, label] == own.sum()
            mean = features[own].mean(dim=0)
            torch.testing.assert_close(models["centroids"][client, label], mean)


def test_a_head_without_a_bias_will_do():
    problem = replace(
        ANSWERS,
        network=lambda samples: nn.Sequential(
            nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)
        ),
    )
    algorithm = make("fedpac", {})
    learner, models, _, problem = fleet_of(algorithm, problem)
    told = {"centroids": np.zeros((3, 2, 4)), "known": np.zeros((3, 2))}
    start = learn(algorithm, learner, models, problem, **told)
    assert not torch.equal(start["body.0.weight"], models["body.0.weight"])


# -- what travels --------------------------------------------------------------------------


def test_body_and_head_travel_and_centroids_are_told():
    configuration = tiny(problem="tiny-answers", algorithm="fedpac", chunk=4, rounds=1)
    assert "centroids" in configuration.get_module().state_dict()
    assert_sends("fedpac", {"body", "head"}, statistics={"centroids", "counts"})


def test_clients_receive_one_body_and_heads_of_their_own():
    configuration = tiny(problem="tiny-answers", algorithm="fedpac", chunk=4, rounds=2)
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        next(RoundLoop(engine, federation).rounds())
        request, _ = federation.request()
        assert request.models is not None
        assert torch.equal(request.models["body.0.weight"][0], request.models["body.0.weight"][1])
        heads = request.models["head.weight"]
        assert not torch.equal(heads[0], heads[1])


def test_absent_clients_keep_their_heads_and_get_the_new_body():
    """A head is the one combined after a client's last round, or the first; a body the last."""
    configuration = tiny(
        problem="tiny-answers", algorithm="fedpac", chunk=4, rounds=5, participation=0.5
    )
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        heads = {client: server.initial["head.weight"][client].clone() for client in range(4)}
        lone = 0
        for (record,) in RoundLoop(engine, server).rounds():
            models = server.last_request()[0].models
            assert models is not None
            for client in range(4):
                head = models["head.weight"][client]
                assert torch.equal(head, heads[client]) == (client not in record.clients)
                heads[client] = head.clone()
                assert torch.equal(models["body.0.weight"][client], models["body.0.weight"][0])
            lone += any(client not in record.clients for client in range(4))
            mixing = record.mixing
            assert mixing is not None
            np.testing.assert_allclose(mixing.sum(axis=1), 1.0)
        assert lone == 5
        RoundLoop(engine, server).finish()
        for client, head in heads.items():
            assert torch.equal(engine.models(kept=False)["head.weight"][client], head)
