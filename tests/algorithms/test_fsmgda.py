from __future__ import annotations

from typing import Any

import numpy as np

from comity.algorithms import Round, make
from tests.vectors import fleet

FSMGDA: dict[str, Any] = {
    # the second client has no gradient of the second objective: it stands in with the first's,
    # which leaves the mean over the owners as it is
    "delta": [[2.0, 0.0], [0.0, 2.0], [1.0, 1.0], [0.0, 2.0]],
    "D": [[1.5, 0.5], [0.0, 2.0]],
    "lam": [0.666667, 0.333333],
    "d": [1.0, 1.0],
    "eta": 0.1,
    "x_new": [-0.1, -0.1],
}


def weights(delta: Any, clients: int, **settings: Any) -> np.ndarray:
    """Weights of the givers, client by client, each with one model an objective, from x = 0."""
    sent = fleet((-np.array(delta)).tolist())
    start = fleet(np.zeros_like(np.array(delta)).tolist())
    ids = tuple(range(clients))
    round = Round(1, ids, (*ids, clients), sent, start, np.ones(clients))
    mixing = make("fsmgda", settings).mix(round)["*"]
    mixing.check(len(sent))
    assert mixing.base is not None
    assert len(mixing.base) == 1
    assert set(mixing.route) == {*ids, clients}, "also who was absent"
    return mixing.weights[0]


def test_weights_direction_and_step():
    delta = np.array(FSMGDA["delta"])
    found = weights(delta, 2, server_rate=FSMGDA["eta"])
    lam = found.reshape(2, 2).sum(axis=0) / FSMGDA["eta"]
    np.testing.assert_allclose(lam, FSMGDA["lam"], atol=1e-6)
    np.testing.assert_allclose(found.reshape(2, 2)[0], found.reshape(2, 2)[1])
    np.testing.assert_allclose(lam @ np.array(FSMGDA["D"]), FSMGDA["d"], atol=1e-5)
    np.testing.assert_allclose(-found @ delta, FSMGDA["x_new"], atol=1e-6)


def test_weights_are_never_negative():
    """Gram [[1, 2], [2, 5]]: equality constraints alone would give [1.5, -0.5]."""
    np.testing.assert_allclose(weights([[1.0, 0.0], [2.0, 1.0]], 1), [1.0, 0.0], atol=1e-6)


def test_an_answer_at_the_corner_is_not_clamped():
    np.testing.assert_allclose(weights([[1.0, 0.0], [2.0, 0.0]], 1), [1.0, 0.0], atol=1e-12)


def test_an_objective_without_movement_is_left_out():
    found = weights([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], 1)
    np.testing.assert_allclose(found, [0.5, 0.0, 0.5], atol=1e-6)


def test_where_nothing_moves_the_model_stays():
    np.testing.assert_array_equal(weights(np.zeros((6, 2)), 3), np.zeros(6))


def test_a_single_objective_is_fedavg_of_equals():
    np.testing.assert_allclose(weights([[1.0, 0.0], [0.0, 2.0]], 2), [0.5, 0.5])


def test_clients_whose_updates_cancel_do_not_move_the_model():
    delta = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(weights(delta, 2) @ delta, [0.0, 1.0], atol=1e-6)
