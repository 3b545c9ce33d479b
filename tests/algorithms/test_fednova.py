from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from comity.algorithms import Round, make
from comity.algorithms.fednova import path_lengths
from comity.core.mixing import mixed
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.server import Server
from tests.algorithms.plain import Plain, assert_close, federation, initial, present, run_of
from tests.tiny import tiny
from tests.vectors import FEDNOVA, fleet, round_of


def nova(start: list[float], steps: Any, **learner: Any) -> tuple[np.ndarray, np.ndarray]:
    """The weights of a round of two clients, and the server's model after it."""
    sent = np.array(FEDNOVA["updates"]) + np.array(start)
    round: Round = round_of(fleet(sent), fleet([start]))
    round = replace(round, statistics={"steps": np.array(steps)}, learner=learner)
    mixings = make("fednova", {}).mix(round)
    models, _ = mixed(mixings, round.sent, round.start)
    return mixings["*"].weights[0], models["0"][0].numpy()


@pytest.mark.parametrize("start", [[0.0, 0.0], [1.0, 1.0]])
def test_by_hand(start):
    """From anywhere: weights that do not sum to one are for updates and not for models."""
    weights, model = nova(start, FEDNOVA["steps"])
    np.testing.assert_allclose(weights, FEDNOVA["weights"])
    np.testing.assert_allclose(model - start, FEDNOVA["x_new"], rtol=1e-5)


def test_equal_steps_are_a_plain_mean():
    weights, _ = nova([0.0, 0.0], [4.0, 4.0])
    np.testing.assert_allclose(weights, [0.5, 0.5])


def test_momentum_by_hand():
    rho = FEDNOVA["rho"]
    lengths = path_lengths(np.array(FEDNOVA["steps"]), rho)
    np.testing.assert_allclose(lengths, FEDNOVA["a_norm"], atol=1e-5)
    # the sum of the weights of all gradients, one by one: 1 + ρ + … of each step
    each = [sum(sum(rho**j for j in range(k)) for k in range(1, t + 1)) for t in (2, 8)]
    np.testing.assert_allclose(lengths, each)
    weights, _ = nova([0.0, 0.0], FEDNOVA["steps"], optimiser="sgd", momentum=rho)
    np.testing.assert_allclose(weights, FEDNOVA["momentum_weights"], atol=1e-5)
    # Adam has a momentum of its own, and the setting means nothing to it
    plain, _ = nova([0.0, 0.0], FEDNOVA["steps"], optimiser="adam", momentum=rho)
    np.testing.assert_allclose(plain, FEDNOVA["weights"])


def test_a_client_that_took_no_step_breaks_nothing():
    weights, _ = nova([0.0, 0.0], [0.0, 8.0])
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_a_run_with_absent_clients_equals_a_plain_loop(momentum):
    """Clients with up to eight times as many rows take different numbers of steps."""
    learner = {"local_epochs": 2, "batch_size": 12, "momentum": momentum}
    configuration = run_of("fednova", sizes="8,4,2,1", size_cap=0, supervised=learner)
    plain, x, counts = Plain(configuration), initial(configuration), set()
    for round, clients in enumerate(present(configuration), start=1):
        sizes = np.array([len(plain.rows[client]) for client in clients], dtype=float)
        shares, lengths, changes = sizes / sizes.sum(), [], []
        for client in clients:
            y, rows = dict(x), len(plain.rows[client])
            steps = -(-2 * rows // min(12, rows))
            speed = {n: torch.zeros_like(t) for n, t in x.items()}
            way = pace = 0.0  # with gradients of one and steps of one
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                speed = {n: momentum * speed[n] + grads[n] for n in y}
                y = {n: y[n] - 0.2 * speed[n] for n in y}
                pace = momentum * pace + 1
                way += pace
            lengths.append(way)
            counts.add(steps)
            changes.append({n: y[n] - x[n] for n in x})
        tau = sum(p * a for p, a in zip(shares, lengths, strict=True))
        for p, a, change in zip(shares, lengths, changes, strict=True):
            x = {n: x[n] + float(tau * p / a) * change[n] for n in x}
    assert len(counts) > 2
    assert_close(federation(configuration)[-1][1], x)


def test_equal_steps_are_fedavg_in_a_run():
    ends = [federation(run_of(name))[-1][1] for name in ("fednova", "fedavg")]
    other = federation(run_of("fednova", sizes="8,4,2,1", supervised={"local_epochs": 1}))
    for name in ends[1]:
        torch.testing.assert_close(ends[0][name], ends[1][name], rtol=1e-5, atol=1e-6)
    assert any((other[-1][1][name] != ends[1][name]).any() for name in ends[1])


def test_a_claim_of_many_steps_does_not_lengthen_everybodys():
    """τ_eff is a mean of what clients tell; it is capped as data sizes are."""
    moved = {}
    for cap in (3.0, 0.0):
        configuration = tiny(problem="tiny-people", algorithm="fednova", rounds=1, size_cap=cap)
        with EmbeddedEngine(configuration) as engine:
            server = Server(configuration)
            request, record = server.request()
            update = engine.round(request)
            update.statistics["steps"][0] = 3e6
            server.take(request, update, record)
            assert any("its 'steps'" in event for event in record.events) == bool(cap)
            rows = server.last_request()[0].models
            assert rows is not None
            moved[cap] = rows.distance(server.initial).max()
    assert moved[0.0] > 1e4 * moved[3.0]
