from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from comity.algorithms import Survey, make
from comity.algorithms.fedcmoo import gram_of_mean
from comity.core.phases import View
from comity.errors import UserError
from tests.laws.test_rules import restored, saved
from tests.tiny import TINY
from tests.vectors import fleet, round_of

FEDCMOO: dict[str, Any] = {
    "jacobian_d_by_M": [[3.0, 0.0], [0.0, 1.0], [0.0, 1.0]],
    "gram": [[9.0, 0.0], [0.0, 2.0]],
    "beta": 0.1,
    "w_after_steps": [[0.464076, 0.535924], [0.432208, 0.567792], [0.403939, 0.596061]],
    "w_converged": [0.181818, 0.818182],
    "w_after_1000_steps_beta_0p001": [0.284636, 0.715364],
    "server_update": {
        "x": [1.0, 1.0],
        "client_deltas": [[-0.2, 0.1], [-0.4, -0.1]],
        "eta_s": 1.5,
        "x_new": [0.55, 1.0],
    },
    "A1": [[1.0, 0.0], [2.0, 1.0]],
    "A2": [[0.0, 1.0], [1.0, 1.0]],
    "gram_of_sum": [[10.0, 7.0], [7.0, 5.0]],
    "sum_of_grams": [[6.0, 3.0], [3.0, 3.0]],
}


def survey_of(*jacobians: Any) -> Survey:
    """What clients with these Jacobians (parameters x objectives) say."""
    rows = np.concatenate([np.array(jacobian).T for jacobian in jacobians])
    # two tensors, so that products must be summed over them
    return Survey(tuple(range(len(jacobians))), {}, fleet(rows[:, :1], rows[:, 1:]))


SURVEY = survey_of(FEDCMOO["jacobian_d_by_M"])


def test_the_gram_is_that_of_the_mean_jacobian():
    np.testing.assert_allclose(gram_of_mean(SURVEY), FEDCMOO["gram"])
    two = gram_of_mean(survey_of(FEDCMOO["A1"], FEDCMOO["A2"]))
    np.testing.assert_allclose(4 * two, FEDCMOO["gram_of_sum"])
    grams = [gram_of_mean(survey_of(FEDCMOO[name])) for name in ("A1", "A2")]
    np.testing.assert_allclose(sum(grams), FEDCMOO["sum_of_grams"])


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_first_steps_of_find_weights(steps):
    algorithm = make("fedcmoo", {"beta": FEDCMOO["beta"], "iterations": steps})
    found = algorithm.broadcast(SURVEY)["weights"]
    np.testing.assert_allclose(found, FEDCMOO["w_after_steps"][steps - 1], atol=1e-6)


def test_weights_are_carried_over_rounds():
    algorithm = make("fedcmoo", {"beta": FEDCMOO["beta"], "iterations": 1})
    for wanted in FEDCMOO["w_after_steps"]:
        np.testing.assert_allclose(algorithm.broadcast(SURVEY)["weights"], wanted, atol=1e-6)
        other = make("fedcmoo", {"beta": FEDCMOO["beta"], "iterations": 1})
        other.load(restored(saved(algorithm.state())))
        algorithm = other


def test_one_round_is_damped():
    found = make("fedcmoo", {}).broadcast(SURVEY)["weights"]
    np.testing.assert_allclose(found, FEDCMOO["w_after_1000_steps_beta_0p001"], atol=1e-6)


@pytest.mark.parametrize("settings", [{"beta": 0.1, "iterations": 500}, {"exact": True}])
def test_many_steps_converge_to_the_exact_weights(settings):
    found = make("fedcmoo", settings).broadcast(SURVEY)["weights"]
    np.testing.assert_allclose(found, FEDCMOO["w_converged"], atol=1e-6)


def test_the_server_steps_along_the_mean_update():
    case = FEDCMOO["server_update"]
    sent = fleet((np.array(case["x"]) + case["client_deltas"]).tolist())
    round = round_of(sent, fleet([case["x"]]), sizes=[1.0, 9.0])
    mixing = make("fedcmoo", {"server_rate": case["eta_s"]}).mix(round)["*"]
    mixing.check(2)
    assert mixing.base is not None
    new = mixing.base["0"].numpy() + mixing.weights @ (sent["0"] - round.start["0"]).numpy()
    np.testing.assert_allclose(new, [case["x_new"]], atol=1e-6)
    assert dict(mixing.route) == {0: 0, 1: 0}


def test_clients_train_on_the_weighted_objectives():
    (phase,) = make("fedcmoo", {}).phases(TINY)
    assert phase.surveyed
    assert phase.weights is not None
    w = torch.tensor([0.3, 0.7])
    assert phase.weights(View({}, {"weights": w})) is w


@pytest.mark.parametrize("exact", [False, True])
def test_without_gradients_weights_stay(exact):
    algorithm = make("fedcmoo", {"exact": exact})
    first = algorithm.broadcast(SURVEY)["weights"]
    np.testing.assert_array_equal(
        algorithm.broadcast(survey_of(np.zeros((3, 2))))["weights"], first
    )
    nothing = make("fedcmoo", {"exact": exact}).broadcast(survey_of(np.zeros((2, 3))))["weights"]
    np.testing.assert_allclose(nothing, np.full(3, 1 / 3))


@pytest.mark.parametrize("exact", [False, True])
def test_an_objective_without_gradient_leaves_honest_weights(exact):
    found = make("fedcmoo", {"exact": exact}).broadcast(survey_of([[1.0, 0.0], [1.0, 0.0]]))[
        "weights"
    ]
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1.0)
    assert found[0] > 0


def test_gradients_that_overflow_leave_the_weights_alone():
    algorithm = make("fedcmoo", {})
    first = algorithm.broadcast(SURVEY)["weights"]
    found = algorithm.broadcast(survey_of([[1e30, 0.0], [0.0, 1e30]]))["weights"]
    np.testing.assert_array_equal(found, first)


def test_a_survey_that_nobody_answered_leaves_the_weights_alone():
    algorithm, nobody = make("fedcmoo", {}), Survey((), {}, fleet(np.zeros((0, 3))))
    with pytest.raises(UserError, match="check the losses"):
        algorithm.broadcast(nobody)
    first = algorithm.broadcast(SURVEY)["weights"]
    np.testing.assert_array_equal(algorithm.broadcast(nobody)["weights"], first)


def test_a_single_objective_has_all_the_weight():
    found = make("fedcmoo", {}).broadcast(survey_of([[3.0], [1.0]], [[2.0], [0.0]]))["weights"]
    np.testing.assert_array_equal(found, [1.0])
