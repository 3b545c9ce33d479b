"""pFedRLLA: who gives how much of what, what is rewarded, and what clients keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from comity.algorithms import Round, Survey, make
from comity.algorithms.pfedrlla.algorithm import PFedRLLA
from comity.algorithms.pfedrlla.allocation import likeness, reward
from comity.algorithms.pfedrlla.model import ScoredModel, head_of
from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing
from comity.core.mixing import mixed as carried_out
from comity.errors import UserError
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems.networks import cnn, mlp
from tests.tiny import assert_sends, tiny
from tests.vectors import PFEDRLLA

BODY, HEAD, BIAS = "model.body.weight", "model.head.weight", "model.head.bias"


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def models(count: int, seed: int = 1) -> Fleet:
    g = torch.Generator().manual_seed(seed)
    shapes = {BODY: (3, 4), HEAD: (2, 3), BIAS: (2,)}
    return Fleet({name: torch.randn(count, *s, generator=g) for name, s in shapes.items()})


def round_of(number: int = 1, present: tuple[int, ...] = (0, 1, 2), **more: Any) -> Round:
    """A round of four clients, of which some took part."""
    sent = models(4, seed=number).select(list(present))
    start = models(1, seed=99).select([0] * len(present))
    sizes = np.array([100.0, 300.0, 50.0, 10.0])[list(present)]
    return Round(number, present, (0, 1, 2, 3), sent, start, sizes, asked=more.pop("asked", 3))


def algorithm(**settings: Any) -> PFedRLLA:
    made = make("pfedrlla", {"warmup": 0, "every": 1, "batch_size": 2, **settings})
    assert isinstance(made, PFedRLLA)
    return made


# -- the two parts -------------------------------------------------------------------------


def test_the_head_of_the_papers_network_is_its_linear_layers():
    network = cnn(3, 32, 32, 10)
    shapes = shapes_of(network)
    heads = head_of(shapes, "auto")
    assert heads == ["body.8.weight", "body.8.bias", "head.weight", "head.bias"]
    count = {name: tensor.numel() for name, tensor in network.state_dict().items()}
    assert sum(count.values()) == PFEDRLLA["cnn_parameters"]
    assert sum(count[name] for name in heads) == PFEDRLLA["cnn_head_parameters"]


def test_without_convolutions_it_is_the_last_layer_and_patterns_may_name_it():
    shapes = shapes_of(mlp(1, 16, 16, 10))
    assert head_of(shapes, "auto") == ["head.weight", "head.bias"]
    assert head_of(shapes, "body.*") == ["body.2.weight", "body.2.bias"]
    assert head_of({f"model.{k}": s for k, s in shapes.items()}, "head.*, nothing") == [
        "model.head.weight",
        "model.head.bias",
    ]


@pytest.mark.parametrize("cut", ["nothing.*", "*", "*.bias"])
def test_a_cut_that_leaves_no_head_or_no_body_is_refused(cut):
    with pytest.raises(UserError, match=r"pfedrlla\.cut = .*head\.weight"):
        configure({"problem": "usps-mlp", "algorithm": "pfedrlla", "pfedrlla": {"cut": cut}})


# -- rules ---------------------------------------------------------------------------------


def test_bodies_are_averaged_by_data_size():
    """The receiver counts with its own size, also where it was among the participants."""
    sent = Fleet({BODY: torch.tensor(PFEDRLLA["bodies"][:2])[:, None], HEAD: torch.ones(2, 2, 2)})
    own = torch.tensor(PFEDRLLA["bodies"][2])[None, None]
    sizes = np.array(PFEDRLLA["data_sizes"])
    made = algorithm(head="local")
    alone = Fleet({BODY: own, HEAD: torch.ones(1, 2, 2)})
    first = Round(1, (2,), (0, 1, 2), alone, alone, np.array([PFEDRLLA["size_self"]]), asked=2)
    made.mix(first)
    later = Round(2, (0, 1), (0, 1, 2), sent, sent, sizes, asked=2)
    mixings = made.mix(later)
    body = mixings["*"]
    np.testing.assert_allclose(body.weights[2], PFEDRLLA["rho"])
    found, route = carried_out(mixings, sent, sent)
    np.testing.assert_allclose(found[BODY][route[2]][0], PFEDRLLA["body_new"], rtol=1e-6)
    np.testing.assert_allclose(body.weights[0], np.array([200.0, 300.0, 0.0]) / 500)


def test_likeness_and_reward():
    alike = likeness(np.array(PFEDRLLA["embeddings"]))
    np.testing.assert_allclose(alike, PFEDRLLA["likeness"], atol=1e-6)
    terms = reward(
        PFEDRLLA["score"],
        PFEDRLLA["before"],
        np.array(PFEDRLLA["weights"]),
        alike,
        PFEDRLLA["target"],
    )
    np.testing.assert_allclose(terms, PFEDRLLA["terms"], atol=1e-6)
    assert np.dot(PFEDRLLA["betas"], terms) == pytest.approx(PFEDRLLA["reward"], abs=1e-5)


def weights_of(mixings: Any) -> tuple[np.ndarray, np.ndarray]:
    head, body = mixings[HEAD], mixings["*"]
    assert isinstance(head, Mixing)
    assert mixings[BIAS] is head
    return head.weights, body.weights


@pytest.mark.parametrize("rule", ["weighted", "agent", "mean", "local"])
def test_either_part_follows_any_rule(rule):
    """Which is how the paper takes its method apart."""
    head, body = weights_of(algorithm(head=rule, body="weighted").mix(round_of()))
    other, weighted = weights_of(algorithm(head="weighted", body=rule).mix(round_of()))
    np.testing.assert_array_equal(body, other)
    np.testing.assert_array_equal(head, weighted)
    if rule == "local":
        np.testing.assert_array_equal(head, np.eye(4))
    if rule == "mean":
        np.testing.assert_allclose(head, np.tile([1 / 3, 1 / 3, 1 / 3, 0], (4, 1)))
    if rule == "agent":
        assert (head[:, 3] == 0).all(), "a client that has not trained gives nothing, to nobody"
        assert (head[:3, :3] > 0).all()


def test_one_decision_serves_the_whole_model():
    head, body = weights_of(algorithm(head="agent", body="agent").mix(round_of()))
    np.testing.assert_array_equal(head, body)


def test_givers_are_the_last_participants_and_everybodys_last_model_is_its_own():
    made = algorithm()
    made.mix(round_of(1, (0, 1, 2)))
    mixings = made.mix(round_of(2, (1, 3), asked=3))
    head, _ = weights_of(mixings)
    assert head[0, 0] > 0, "its own, of the round before"
    assert (head[1:, 0] == 0).all()
    assert (head[:, 2] == [0, 0, head[2, 2], 0]).all()
    np.testing.assert_allclose(head.sum(axis=1), 1.0)
    found, route = carried_out(mixings, round_of(2, (1, 3)).sent, round_of(2, (1, 3)).start)
    own = {0: models(4, 1)[HEAD][0], 1: models(4, 2)[HEAD][1], 3: models(4, 2)[HEAD][3]}
    wanted = sum(float(head[0, giver]) * model for giver, model in own.items())
    torch.testing.assert_close(found[HEAD][route[0]], wanted, rtol=1e-4, atol=1e-5)


def test_first_deliveries_have_nothing_of_the_initial_model():
    """Client 3 adds its own head from its first round on, and not before; weights sum to one."""
    made = algorithm(warmup=9)
    for number, present in ((1, (0, 1)), (2, (1, 2)), (3, (0, 3)), (4, (0, 1))):
        head, body = weights_of(made.mix(round_of(number, present, asked=2)))
        for weights in (head, body):
            assert (weights[3, 3] > 0) == (number >= 3)
            np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        assert (head[2, 2] > 0) == (number >= 2)
    allocator = made._allocator
    assert allocator is not None
    allocator._sizes[3] = 0.0
    offered = allocator.offer(np.zeros((4, 3)))  # nothing decided: its givers alike
    np.testing.assert_allclose(offered[3], [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(offered[:3], np.eye(4)[:3])


def test_random_weights_at_first_then_the_agents():
    """The first are drawn for each client; an agent that sees the same decides the same."""
    first, again = algorithm(warmup=5), algorithm(warmup=5)
    warm = weights_of(first.mix(round_of(1)))[0]
    np.testing.assert_array_equal(warm, weights_of(again.mix(round_of(1)))[0])
    assert np.ptp(warm[:, 0]) > 0.05
    other = weights_of(algorithm(warmup=5).mix(round_of(2)))[0]
    assert np.abs(warm - other).max() > 0.05
    calm = weights_of(algorithm(noise=0.0).mix(round_of(1)))[0]
    noisy = weights_of(algorithm(noise=0.03).mix(round_of(1)))[0]
    assert 0 < np.abs(calm - noisy).max() < 0.2


def test_what_was_offered_is_rewarded_and_learned_from():
    made = algorithm(score_reward=1.0, gain_reward=10.0, likeness_reward=0.0)
    made.mix(round_of(1))
    assert made.diagnostics()["episodes"] == 0
    values = {"before": np.array([0.5, -1.0, 0.2]), "after": np.array([0.75, 0.9, 0.1])}
    told = made.broadcast(Survey((0, 1, 3), values))
    assert told["updated"] == 0
    mixings = made.mix(round_of(2))
    diagnostics = made.diagnostics()
    assert diagnostics["episodes"] == 2, "client 1 has not trained yet, so nothing can be better"
    assert diagnostics["rewards"]["gain"] == pytest.approx((0.25 - 0.1) / 2)
    assert diagnostics["rewards"]["score"] == pytest.approx((np.exp(-0.25) + np.exp(-0.9)) / 2 - 1)
    np.testing.assert_allclose(diagnostics["weights"], weights_of(mixings)[0], atol=1e-5)
    assert made.broadcast(Survey((), {"before": np.zeros(0), "after": np.zeros(0)}))["updated"] == 1


# -- clients -------------------------------------------------------------------------------


def test_models_and_two_scores_travel():
    assert_sends("pfedrlla", {"model"})


def test_a_body_stands_still_until_the_agent_has_learned():
    settings = {"warmup": 1, "every": 2, "batch_size": 4}
    configuration = tiny(problem="tiny-answers", algorithm="pfedrlla", chunk=4, pfedrlla=settings)
    still, learned = [], []
    with EmbeddedEngine(configuration) as engine:
        federation = Server(configuration)
        for _ in RoundLoop(engine, federation).rounds():
            held = engine.models(kept=False)
            still.append(held["still.0/weight"].clone())
            learned.append(federation.algorithm.state()["updated"])
            assert set(held) >= {"score", "model.0.weight", "model.2.weight"}
            assert "still.2/weight" not in set(held), "the head moves"
    assert learned == [False, True, False, True]
    torch.testing.assert_close(still[1], still[0], rtol=0, atol=0)
    assert not torch.equal(still[2], still[1])
    torch.testing.assert_close(still[3], still[2], rtol=0, atol=0)


def test_scores_are_those_of_validation_samples_before_training():
    settings = {"warmup": 9, "body": "local"}
    configuration = tiny(problem="tiny-answers", algorithm="pfedrlla", chunk=4, pfedrlla=settings)
    with EmbeddedEngine(configuration) as engine:
        loop = RoundLoop(engine, Server(configuration))
        records, metrics = [], []
        for (record,) in loop.rounds():
            records.append(record)
            metrics.append(engine.metrics(record.clients))
        trained = engine.models(kept=False)["score"]
    assert metrics[-1].trained is not None
    np.testing.assert_allclose(trained, metrics[-1].trained.mean(axis=1), rtol=1e-5)
    rewards = records[1].diagnostics["rewards"]
    assert metrics[1].received is not None
    assert metrics[0].trained is not None
    gains = metrics[1].received.mean(axis=1) - metrics[0].trained.mean(axis=1)
    assert rewards["gain"] == pytest.approx(gains.mean(), abs=1e-6)


def test_a_client_predicts_with_its_model():
    problem = tiny(problem="tiny-answers").get_problem()
    module = algorithm(warmup=3).build(problem.model(), problem)
    assert isinstance(module, ScoredModel)
    assert algorithm().predictor(module, np.ones(1)) is module.model
    assert float(module.score) == -1.0


def test_environments_are_refused():
    with pytest.raises(UserError, match="differentiable losses"):
        configure({"problem": "deep-sea-treasure", "algorithm": "pfedrlla"})
