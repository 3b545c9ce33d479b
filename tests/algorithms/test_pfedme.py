from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from comity.algorithms import make
from comity.core.mixing import mixed
from comity.core.phases import View
from tests.algorithms.referee import RATE, ROUNDS, Referee, ends, federated
from tests.tiny import ANSWERS, NORMS, Number, assert_sends, fleet_of, held, learn, one_step, tiny
from tests.vectors import PFEDME, fleet, round_of

SETTINGS = {name: PFEDME[name] for name in ("pull", "personal_rate", "inner_steps")}


@pytest.mark.parametrize("client", [0, 1])
def test_two_batches_by_hand(client):
    """Three steps of θ on each batch, pulled to w, and then one of w; θ goes on where it is."""
    algorithm = make("pfedme", SETTINGS)
    module = algorithm.build(Number(PFEDME["x"]), ANSWERS)
    (phase,) = algorithm.phases(ANSWERS)
    assert phase.repeat == 3
    curvature, optimum = PFEDME["curvature"][client], PFEDME["optimum"][client]
    tensors = {**held(module), "personal.t": torch.tensor([9.0])}
    tensors |= phase.before(tensors, {}, View({}))
    assert tensors["personal.t"].item() == PFEDME["x"], "θ starts from what was received"
    for batch in range(2):
        for _ in range(3):
            tensors = one_step(
                phase,
                module,
                tensors,
                lambda answer: curvature / 2 * (answer - optimum).square().sum(),
                PFEDME["rate"],
                received={name: tensors[name] for name in ("local.t", "personal.t")},
            )
        assert tensors["personal.t"].item() == pytest.approx(PFEDME["theta"][client][batch])
        assert tensors["local.t"].item() == pytest.approx(PFEDME["w"][client][batch])


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_the_server_goes_beyond_the_plain_mean(beta):
    start, sent = fleet([[PFEDME["x"]]]), fleet([[w[-1]] for w in PFEDME["w"]])
    algorithm, round = make("pfedme", {"server_rate": beta}), round_of(sent, start, sizes=[1, 3])
    models, route = mixed(algorithm.mix(round), round.sent, round.start)
    assert route == {0: 0, 1: 0}
    assert models["0"].item() == pytest.approx(PFEDME["x_new"][beta], abs=1e-5)


@pytest.mark.parametrize(("inner_steps", "beta"), [(4, 1.0), (1, 1.5)])
def test_three_rounds_are_those_of_plain_pytorch(inner_steps, beta):
    """One batch for all inner steps; who is absent keeps θ, and no delivery lands in it."""
    pull, rate = 3.0, 0.05
    configuration = federated(
        "pfedme", inner_steps=inner_steps, server_rate=beta, pull=pull, personal_rate=rate
    )
    found = ends(configuration)
    referee = Referee(configuration, {"": "local."})
    personal = Referee(configuration, {"": "personal."})
    x = deepcopy(referee.initial)
    w, theta = ([deepcopy(x) for _ in range(3)] for _ in range(2))
    for round, present in ROUNDS.items():
        for client in present:
            w[client], theta[client] = deepcopy(x), deepcopy(x)
            inner = torch.optim.SGD(theta[client].parameters(), rate)
            for batch in referee.batches(client, round):
                for _ in range(inner_steps):
                    inner.zero_grad()
                    pairs = zip(theta[client].parameters(), w[client].parameters(), strict=True)
                    away = sum((a - b.detach()).square().sum() for a, b in pairs)
                    (referee.loss(theta[client], batch, client) + pull / 2 * away).backward()
                    inner.step()
                pairs = zip(theta[client].parameters(), w[client].parameters(), strict=True)
                with torch.no_grad():
                    for a, b in pairs:
                        b -= RATE * pull * (b - a)
        for client in range(3):
            referee.assert_holds(found[round - 1], client, w[client])
            personal.assert_holds(found[round - 1], client, theta[client])
        with torch.no_grad():
            for name, parameter in x.named_parameters():
                sent = torch.stack([w[c].get_parameter(name) for c in present]).mean(dim=0)
                parameter.copy_((1 - beta) * parameter + beta * sent)
    for client in range(3):
        referee.assert_holds(found[-1], client, x)
        personal.assert_holds(found[-1], client, theta[client])
    steps = 3 * inner_steps
    assert found[-1]["steps"].tolist() == [3 * steps, 2 * steps, 3 * steps]


def test_who_has_not_trained_yet_predicts_with_what_it_received():
    algorithm = make("pfedme", {})
    (update, first) = (algorithm.on_receipt(ANSWERS), torch.tensor([1.0]))
    for steps, wanted in ((0.0, 1.0), (5.0, 2.0)):
        parameters = {"local.t": first, "personal.t": torch.tensor([2.0])}
        found = update({**parameters, "steps": torch.tensor(steps)}, {}, View({}))
        assert {name: tensor.item() for name, tensor in found.items()} == {"personal.t": wanted}


def test_the_personal_model_predicts():
    algorithm = make("pfedme", {})
    module = algorithm.build(Number(1.0), ANSWERS)
    module.personal.t.data.fill_(3.0)
    assert module(torch.zeros(1)).item() == 3.0
    assert algorithm.predictor(module, np.ones(1)) is module.personal


def test_a_strong_pull_keeps_theta_at_w():
    """θ tends to w as λ grows."""
    apart = []
    for pull in (0.1, 10.0, 100.0):
        algorithm = make("pfedme", {"pull": pull, "personal_rate": 0.005})
        learner, models, _, problem = fleet_of(algorithm, ANSWERS, optimiser="sgd")
        learn(algorithm, learner, models, problem)
        w = models.group("local.*").tensors
        theta = [models[name.replace("local.", "personal.")] for name in w]
        apart.append(sum(float((a - b).norm()) for a, b in zip(theta, w.values(), strict=True)))
    assert apart[0] > apart[1] > apart[2] > 0


def test_statistics_of_batches_go_with_the_local_model():
    """They are those that θ has seen, for the server to average."""
    algorithm = make("pfedme", {})
    learner, models, _, problem = fleet_of(algorithm, NORMS, optimiser="sgd")
    start = learn(algorithm, learner, models, problem)
    for name in ("1.running_mean", "1.running_var"):
        assert torch.equal(models[f"local.{name}"], models[f"personal.{name}"])
        assert not torch.equal(models[f"local.{name}"], start[f"local.{name}"])


def test_a_server_is_needed():
    with pytest.raises(Exception, match="pfedme steps from one model that all clients hold"):
        tiny(problem="tiny-answers", algorithm="pfedme", topology="neighbours")


def test_only_the_local_model_travels():
    assert_sends("pfedme", {"local"})
