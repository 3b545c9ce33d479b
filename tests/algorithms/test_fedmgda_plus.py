from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comity.algorithms import make
from tests.vectors import fleet, round_of

G = np.array([[3.0, 0.0], [0.0, 0.5], [-1.0, 1.0]])
NORMS = np.linalg.norm(G, axis=1)
FEDMGDA_PLUS: list[tuple[float, list[float], list[float]]] = [
    (0.1, [0.431658, 0.233333, 0.335008], [0.194772, 0.47022]),
    (1.0, [0.5, 0.0, 0.5], [0.146447, 0.353553]),
    (0.0, [0.333333, 0.333333, 0.333333], [0.097631, 0.569036]),
]
THETA_NEW = [0.805228, 0.52978]


def weights(g: Any, algorithm: Any = None, sizes: Any = None, **settings: Any) -> np.ndarray:
    """The server's weights for clients whose pseudo-gradients are g."""
    theta = fleet(np.ones((1, len(g[0]))))
    sent = fleet(1.0 - np.array(g))
    algorithm = make("fedmgda-plus", settings) if algorithm is None else algorithm
    mixing = algorithm.mix(round_of(sent, theta, sizes=sizes))["*"]
    mixing.check(len(sent))
    assert mixing.base is not None
    np.testing.assert_array_equal(mixing.base["0"], theta["0"])
    return mixing.weights[0]


@pytest.mark.parametrize(("epsilon", "lam", "d"), FEDMGDA_PLUS)
def test_weights_and_direction(epsilon, lam, d):
    found = weights(G, epsilon=epsilon)
    np.testing.assert_allclose(found * NORMS, lam, atol=1e-5)
    np.testing.assert_allclose(found @ G, d, atol=1e-5)


def test_the_servers_step():
    np.testing.assert_allclose(1.0 - weights(G, epsilon=0.1) @ G, THETA_NEW, atol=1e-5)


def test_the_step_decays_and_remembers_how_often_it_stepped():
    algorithm = make("fedmgda-plus", {"server_rate": 2.0, "decay": 0.5})
    first = weights(G, algorithm)
    np.testing.assert_allclose(weights(np.zeros((3, 2)), algorithm), 0.0)
    heir = make("fedmgda-plus", {"server_rate": 2.0, "decay": 0.5})
    heir.load(algorithm.state())
    np.testing.assert_allclose(weights(G, heir), first / 2)
    np.testing.assert_allclose(weights(G, heir), first / 4)


def test_priors():
    np.testing.assert_allclose(
        weights(G, sizes=[1.0, 1.0, 2.0], epsilon=0.0) * NORMS, [0.25, 0.25, 0.5], rtol=1e-6
    )
    alike = weights(G, sizes=[1.0, 1.0, 2.0], epsilon=0.0, prior="uniform")
    np.testing.assert_allclose(alike * NORMS, np.full(3, 1 / 3), rtol=1e-6)


def test_the_length_of_an_upload_has_no_effect():
    longer = G * np.array([[1.0], [1e6], [1.0]])
    np.testing.assert_allclose(weights(longer) @ longer, weights(G) @ G, atol=1e-5)


def test_a_client_that_stood_still_is_left_out():
    found = weights(np.vstack([G, [[0.0, 0.0]]]), epsilon=0.1)
    np.testing.assert_allclose(found[:3], weights(G, epsilon=0.1), rtol=1e-6)
    assert found[3] == 0.0


def test_an_upload_that_overflows_is_left_out():
    found = weights(np.vstack([G, [[1e30, 1e30]]]), epsilon=0.1)
    np.testing.assert_allclose(found[:3], weights(G, epsilon=0.1), rtol=1e-6)
    assert found[3] == 0.0


def test_a_single_client_sets_the_direction_but_not_the_length():
    np.testing.assert_allclose(weights(G[:1]) @ G[:1], [1.0, 0.0], rtol=1e-6)


def test_no_present_client_is_hurt_without_bounds():
    """With ε = 1, the common direction has a non-negative product with every client's."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        g = rng.normal(size=(6, 4))
        assert (g @ (weights(g, epsilon=1.0) @ g) >= -1e-5).all()
