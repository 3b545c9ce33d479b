from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from comity.algorithms import Algorithm, make
from comity.algorithms.wrappers.application import step_of
from comity.algorithms.wrappers.confree import ConFREE
from comity.configuration import configure
from comity.core.fleet import Fleet
from comity.core.mixing import mixed
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.server import Server
from tests.algorithms.plain import Plain, assert_close, federation, initial, present, run_of
from tests.tiny import tiny
from tests.vectors import FEDOPT, fleet, round_of

ADAPTIVE = ("fedadagrad", "fedadam", "fedyogi")
FAMILY = ("fedavgm", *ADAPTIVE)


def server_round(algorithm: Algorithm, x: Fleet, update: Any, sizes: Any = (1, 3)) -> Fleet:
    """The server's model after a round of two clients whose mean update is given."""
    # 1 · 0.3 − 3 · 0.1 = 0: by their sizes, what each adds cancels
    sent = x + fleet([update, update]) + fleet([[0.3, 0.6], [-0.1, -0.2]])
    round = round_of(sent, x, sizes=sizes)
    rows, _ = mixed(algorithm.mix(round), round.sent, round.start)
    return algorithm.server_step(x, rows)


@pytest.mark.parametrize("name", FAMILY)
def test_two_rounds_by_hand_through_a_checkpoint(name):
    settings = {} if name == "fedavgm" else {"server_rate": FEDOPT["eta"]}
    algorithm, x = make(name, settings), fleet([FEDOPT["x0"]])
    for number, update in enumerate(FEDOPT["mean_updates"]):
        x = server_round(algorithm, x, update)
        np.testing.assert_allclose(x["0"][0], FEDOPT["x"][name][number], atol=2e-6)
        state = algorithm.state()
        np.testing.assert_allclose(
            state["momentum/0"][0], FEDOPT["momentum"][name][number], atol=1e-6
        )
        if name in ADAPTIVE:
            squares = FEDOPT["squares"][name][number]
            np.testing.assert_allclose(state["squares/0"][0], squares, atol=2e-7)
        algorithm = make(name, settings)
        algorithm.load(state)


@pytest.mark.parametrize("name", FAMILY)
def test_clients_count_alike_as_in_the_paper(name):
    """The mean of what each adds is (0.1, 0.2) then, and sizes mean nothing."""
    x = fleet([[1.0, 1.0]])
    alike = make(name, {"weighting": "uniform"})
    wanted = make(name, {})
    np.testing.assert_allclose(
        server_round(alike, x, [0.1, -0.3])["0"],
        server_round(wanted, x, [0.2, -0.1])["0"],
        atol=1e-6,
    )


def plain_step(name: str, x: Any, m: Any, v: Any, change: Any, settings: dict[str, float]) -> Any:
    """Reddi et al., algorithm 2, entry by entry, in float64."""
    eta, b1, b2, tau = (settings[k] for k in ("server_rate", "beta1", "beta2", "tau"))
    m = b1 * m + (1 - b1) * change
    if name == "fedadagrad":
        v = v + change**2
    elif name == "fedadam":
        v = b2 * v + (1 - b2) * change**2
    else:
        v = v - (1 - b2) * change**2 * torch.sign(v - change**2)
    return x + eta * m / (v.sqrt() + tau), m, v


@pytest.mark.parametrize("name", FAMILY)
def test_a_run_with_absent_clients_equals_a_plain_loop(name):
    own = {"server_rate": 0.05, "beta1": 0.8, "tau": 1e-2}
    values = {"fedadagrad": own, "fedavgm": {"server_rate": 0.7, "beta": 0.6}}
    values = values.get(name, {**own, "beta2": 0.9})
    configuration = run_of(name, sizes="8,4,2,1", **{name: values})
    plain, steps = Plain(configuration), configuration.learner_settings["local_steps"]
    x = initial(configuration)
    m = {n: torch.zeros_like(t).double() for n, t in x.items()}
    v = {n: torch.full_like(t, own["tau"] ** 2).double() for n, t in x.items()}
    attended = present(configuration)
    assert len(set(attended)) > 1, "different clients are absent"
    for round, clients in enumerate(attended, start=1):
        sizes = [len(plain.rows[client]) for client in clients]
        changes = []
        for client in clients:
            y = dict(x)
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                y = {n: y[n] - 0.2 * grads[n] for n in y}
            changes.append({n: (y[n] - x[n]).double() for n in x})
        for n in x:
            weighted = zip(sizes, changes, strict=True)
            change = sum(s * c[n] for s, c in weighted) / sum(sizes)
            if name == "fedavgm":
                m[n] = 0.6 * m[n] + change
                new = x[n] + 0.7 * m[n]
            else:
                new, m[n], v[n] = plain_step(
                    name, x[n], m[n], v[n], change, {"beta2": 0.0, **values}
                )
            x[n] = new.float()
    assert_close(federation(configuration)[-1][1], x)


def test_fedavgm_without_momentum_is_fedavg():
    still, mean = (
        federation(run_of(name, **more))[-1][1]
        for name, more in (("fedavgm", {"fedavgm": {"beta": 0.0}}), ("fedavg", {}))
    )
    moving = federation(run_of("fedavgm"))[-1][1]
    for name in mean:
        torch.testing.assert_close(still[name], mean[name], rtol=1e-5, atol=1e-6)
        assert (moving[name] != mean[name]).any()


def test_a_round_in_which_nothing_is_mixed_leaves_the_server_alone():
    configuration = tiny(problem="tiny-people", algorithm="fedadam", rounds=3)
    with EmbeddedEngine(configuration) as engine:
        server, states, models = Server(configuration), [], []
        for number in range(1, 4):
            request, record = server.request()
            update = engine.round(request)
            assert update.models is not None
            if number == 2:  # nobody's model is finite
                for tensor in update.models.tensors.values():
                    tensor.fill_(torch.nan)
            server.take(request, update, record)
            states.append({k: v.copy() for k, v in server.algorithm.state().items()})
            delivery = server.last_request()[0].models
            assert delivery is not None
            models.append(delivery.clone())
    assert all((states[0][key] == states[1][key]).all() for key in states[0])
    assert not models[0].distance(models[1]).any()
    assert any((states[1][key] != states[2][key]).any() for key in states[1])
    assert models[1].distance(models[2]).all()


@pytest.mark.parametrize("name", FAMILY)
def test_the_optimiser_sees_what_a_wrapper_makes_of_the_mean(name):
    """ConFREE's step takes the place of the mean update, on the way to the optimiser."""
    x = fleet([[0.0, 0.0]])
    round = round_of(fleet([[0.3, 0.1], [-0.2, 0.1]]), x)
    algorithm, seen = make(name, {}), []
    step = step_of(algorithm, [ConFREE()], round)
    rows, _ = mixed(step.mixings, round.sent, round.start)
    plain, _ = mixed(make("fedavg", {}).mix(round), round.sent, round.start)
    seen.append(algorithm.server_step(x, rows)["0"])
    seen.append(make(name, {}).server_step(x, rows)["0"])
    seen.append(make(name, {}).server_step(x, plain)["0"])
    assert torch.equal(seen[0], seen[1])
    assert not torch.allclose(seen[0], seen[2])


def test_an_outlier_under_a_robust_wrapper_does_not_reach_the_moments():
    values = {"problem": "tiny-people", "algorithm": "fedadam", "clients": 5, "rounds": 1}
    largest = {}
    for wrapper in ("none", "geometric-median"):
        configuration = tiny(**values, wrapper=wrapper)
        with EmbeddedEngine(configuration) as engine:
            server = Server(configuration)
            request, record = server.request()
            update = engine.round(request)
            assert update.models is not None
            for tensor in update.models.tensors.values():
                tensor[4] += 100.0
            server.take(request, update, record)
            moments = server.algorithm.state()
            largest[wrapper] = max(
                np.abs(v).max() for k, v in moments.items() if k.startswith("momentum")
            )
    assert largest["none"] == pytest.approx(0.1 * 100 / 5, rel=0.05)
    assert largest["geometric-median"] < 0.05


def test_statistics_of_batches_are_averaged_and_not_optimised(monkeypatch):
    configuration = configure(
        {"problem": "tiny-answers", "algorithm": "fedyogi", "clients": 3, "rounds": 1, "chunk": 3}
    )
    problem = configuration.get_problem()
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    monkeypatch.setattr(type(problem), "model", lambda self: network)
    with EmbeddedEngine(configuration) as engine:
        server = Server(configuration)
        request, record = server.request()
        update = engine.round(request)
        assert update.models is not None
        sent = update.models.clone()
        server.take(request, update, record)
    rows = server.last_request()[0].models
    assert rows is not None
    weights = update.sizes / update.sizes.sum()
    for name in ("1.running_mean", "1.running_var"):
        torch.testing.assert_close(rows[name][0], sent.mix(weights[None])[name][0])
    assert not any("running" in name for name in server.algorithm.state())
    mean = sent.mix(weights[None])["0.weight"][0]
    assert not torch.allclose(rows["0.weight"][0], mean)
