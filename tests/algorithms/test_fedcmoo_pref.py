from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comity.algorithms import Survey, make
from comity.algorithms.fedcmoo_pref import epo, imbalance
from tests.vectors import fleet

GRAM = np.array([[2.0, -0.5], [-0.5, 1.0]])
LOSSES = [1.0, 0.25]
BALANCE: dict[str, Any] = {
    "r": [1.0, 1.0],
    "mu": 0.192745,
    "a": [0.277259, -1.109035],
    "Ca": [1.109035, -1.247665],
    "alpha": [1.0, 0.0],
    "scales": [0.9, 0.1],
}
DESCENT: dict[str, Any] = {
    "r": [1.0, 4.0],
    "mu": 0.0,
    "a": [0.0, 0.0],
    "Ca": [0.0, 0.0],
    "alpha": [0.666667, 0.333333],
    "scales": [0.633333, 0.366667],
}


def survey(preferences: Any, losses: Any = (LOSSES,), gram: np.ndarray = GRAM) -> Survey:
    """Clients that all have gradients of the given inner products."""
    values, vectors = np.linalg.eigh(gram)
    factor = vectors * np.sqrt(np.clip(values, 0.0, None))
    n = len(preferences)
    said = {"preferences": np.array(preferences), "losses": np.array(losses)}
    return Survey(tuple(range(n)), said, fleet(np.tile(factor, (n, 1)).tolist()))


@pytest.mark.parametrize("case", [BALANCE, DESCENT], ids=["balance", "descent"])
def test_the_linear_programme(case):
    r = np.array(case["r"])
    mu, a = imbalance(np.array(LOSSES), r)
    assert mu == pytest.approx(case["mu"], abs=1e-6)
    np.testing.assert_allclose(a, case["a"], atol=1e-6)
    np.testing.assert_allclose(GRAM @ a, case["Ca"], atol=1e-6)
    alpha = epo(GRAM, np.array(LOSSES), r, epsilon=1e-2)
    np.testing.assert_allclose(alpha, case["alpha"], atol=1e-6)
    found = make("fedcmoo-pref", {}).broadcast(survey([case["r"]]))["weights"]
    np.testing.assert_allclose(found, case["scales"], atol=1e-6)


def test_the_answer_does_not_depend_on_the_length_of_gradients():
    for case in (BALANCE, DESCENT):
        for scale in (1e-10, 1e10):
            alpha = epo(scale * GRAM, np.array(LOSSES), np.array(case["r"]), epsilon=1e-2)
            np.testing.assert_allclose(alpha, case["alpha"], atol=1e-6)


def test_the_worst_objective_is_never_sacrificed():
    """(Gα)_j ≥ 0 for the worst, though a third objective promises more elsewhere."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        x = rng.normal(size=(4, 5))
        losses, r = rng.uniform(0.1, 2.0, 4), rng.dirichlet(np.ones(4))
        alpha = epo(x @ x.T, losses, r, epsilon=1e-2)
        assert alpha is not None
        assert (x @ x.T @ alpha)[np.argmax(r * losses)] >= -1e-6


def test_preferences_and_losses_are_means_over_the_clients():
    one = make("fedcmoo-pref", {}).broadcast(survey([[0.3, 0.7]], [[1.0, 0.5]]))["weights"]
    two = survey([[0.1, 0.9], [0.5, 0.5]], [[1.6, 0.8], [0.4, 0.2]])
    np.testing.assert_allclose(make("fedcmoo-pref", {}).broadcast(two)["weights"], one, atol=1e-6)


@pytest.mark.parametrize("preference", [[1.0, 0.0], [0.0, 1.0]])
@pytest.mark.parametrize("losses", [[0.0, 1.0], [0.0, 0.0], [1e9, 0.0]])
def test_extreme_preferences_and_losses_have_finite_weights(preference, losses):
    found = make("fedcmoo-pref", {}).broadcast(survey([preference], [losses]))["weights"]
    assert (found >= 0.1 - 1e-9).all(), "kappa / M is the least share"
    assert found.sum() == pytest.approx(1.0)


def test_where_there_is_no_answer_the_previous_one_holds():
    algorithm = make("fedcmoo-pref", {})
    still = survey([[0.5, 0.5]], gram=np.zeros((2, 2)))
    np.testing.assert_allclose(algorithm.broadcast(still)["weights"], [0.5, 0.5])
    first = algorithm.broadcast(survey([[1.0, 1.0]]))["weights"]
    np.testing.assert_array_equal(algorithm.broadcast(still)["weights"], first)
    diverged = survey([[0.5, 0.5]], [[np.nan, 1.0]])
    np.testing.assert_array_equal(algorithm.broadcast(diverged)["weights"], first)
    heir = make("fedcmoo-pref", {})
    heir.load(algorithm.state())
    np.testing.assert_array_equal(heir.broadcast(still)["weights"], first)


def test_an_objective_without_gradient_leaves_honest_weights():
    for preference in ([0.5, 0.5], [0.9, 0.1], [0.1, 0.9]):
        found = make("fedcmoo-pref", {}).broadcast(survey([preference], gram=np.diag([1.0, 0.0])))
        assert np.isfinite(found["weights"]).all()
        assert found["weights"].sum() == pytest.approx(1.0)
