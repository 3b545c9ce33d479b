from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from comity.algorithms import Survey, make
from comity.core.mixing import mixed
from comity.errors import UserError
from comity.problems.data import batch_of
from tests.algorithms.plain import Plain, assert_close, federation, initial, present, run_of
from tests.tiny import tiny
from tests.vectors import QFEDAVG, fleet, round_of


def weights(q: float, sizes: Any = None, answered: Any = (0, 1), **settings: Any) -> np.ndarray:
    """The server's weights of the updates of two clients."""
    round = round_of(fleet(QFEDAVG["sent"]), fleet([[0.0, 0.0]]), sizes=sizes)
    survey = Survey((0, 1), {"objective": np.array(QFEDAVG["losses"])}).only(answered)
    steps = {"steps": np.array([1.0, 1.0])}
    learner = {"learning_rate": 1 / QFEDAVG["lipschitz"]}
    round = replace(round, survey=survey, statistics=steps, learner=learner)
    mixings = make("q-fedavg", {"q": q, **settings}).mix(round)
    models, _ = mixed(mixings, round.sent, round.start)
    chosen = mixings["*"].weights[0]
    np.testing.assert_allclose(models["0"][0], chosen @ np.array(QFEDAVG["sent"]), rtol=1e-5)
    return chosen


@pytest.mark.parametrize("q", [0, 1, 2])
def test_by_hand(q):
    found = weights(q)
    np.testing.assert_allclose(found, QFEDAVG["weights"][q], atol=1e-5)
    np.testing.assert_allclose(found @ np.array(QFEDAVG["sent"]), QFEDAVG["x_new"][q], atol=1e-5)


def test_lipschitz_by_hand():
    """L = 5, q = 1: G² = (0.25, 1), h = (0.25 + 5, 1 + 20), weights (5, 20) / 26.25."""
    np.testing.assert_allclose(weights(1, lipschitz=5.0), np.array([5, 20]) / 26.25)


def test_sizes_weigh_both_sums():
    """Sizes 3 and 1, q = 1: (3 · 10, 40) / (3 · 11 + 44)."""
    found = weights(1, sizes=[3, 1], weighting="sizes")
    np.testing.assert_allclose(found, np.array([30, 40]) / 77)
    np.testing.assert_allclose(weights(1, sizes=[3, 1]), QFEDAVG["weights"][1], atol=1e-5)


def test_who_told_no_finite_loss_is_left_out_of_both_sums():
    np.testing.assert_allclose(weights(1, answered=(1,)), [0.0, 40 / 44])
    np.testing.assert_allclose(weights(1, answered=()), [0.0, 0.0])


def plain_loop(configuration: Any, q: float, lipschitz: float) -> dict[str, torch.Tensor]:
    """Li et al., algorithm 2, with the losses of the received model over all training rows."""
    plain, steps = Plain(configuration), configuration.learner_settings["local_steps"]
    columns = plain.problem.columns()
    x = initial(configuration)
    attended = present(configuration)
    assert len(set(attended)) > 1, "different clients are absent"
    for round, clients in enumerate(attended, start=1):
        deltas, bounds = [], []
        for client in clients:
            loss = float(plain.loss(x, client, batch_of(columns, plain.rows[client])))
            y = dict(x)
            for batch in plain.batches(client, round, steps):
                grads = plain.gradients(y, client, batch)
                y = {n: y[n] - 0.2 * grads[n] for n in y}
            g = {n: lipschitz * (x[n] - y[n]) for n in x}
            square = sum(float(t.square().sum()) for t in g.values())
            deltas.append({n: loss**q * g[n] for n in x})
            bounds.append(q * loss ** (q - 1) * square + lipschitz * loss**q)
        x = {n: x[n] - sum(d[n] for d in deltas) / sum(bounds) for n in x}
    return x


def test_a_run_with_absent_clients_equals_the_papers_loop():
    """The paper's L = 1 / η is a setting; the default is that of a step of K η."""
    for settings, lipschitz in (({"lipschitz": 5.0}, 1 / 0.2), ({}, 1 / (4 * 0.2))):
        configuration = run_of("q-fedavg", **{"q-fedavg": {"q": 1.5, **settings}})
        assert configuration.learner_settings["local_steps"] == 4
        expected = plain_loop(configuration, 1.5, lipschitz)
        assert_close(federation(configuration)[-1][1], expected)


def test_without_q_it_is_the_plain_mean():
    mean, zero = (
        federation(run_of(name, **more))[-1][1]
        for name, more in (("fedavg", {}), ("q-fedavg", {"q-fedavg": {"q": 0.0}}))
    )
    for name in mean:  # where all clients have equally many rows
        torch.testing.assert_close(zero[name], mean[name], rtol=1e-4, atol=1e-5)


def test_environments_are_refused():
    with pytest.raises(UserError, match="q-fedavg needs objectives that are differentiable losses"):
        tiny(algorithm="q-fedavg")
