from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comity.core.solvers import (
    alive,
    best_on_simplex,
    descent_weights,
    min_norm,
    project_box_simplex,
    project_simplex,
)

MIN_NORM: dict[str, Any] = {
    "gram2": [[4.0, 1.0], [1.0, 2.0]],
    "w2": [0.25, 0.75],
    "gram3": [[9.0, 0.0, -3.0], [0.0, 0.25, 0.5], [-3.0, 0.5, 2.0]],
    "w3": [0.027027, 0.972973, 0.0],
    "norm2_3": 0.243243,
    "proj_box_simplex": {
        "v": [0.9, 0.3, 0.1],
        "lb": [0.2, 0.2, 0.2],
        "ub": [0.5, 0.5, 0.5],
        "p": [0.5, 0.3, 0.2],
    },
    "proj_simplex": [([0.6, 0.6], [0.5, 0.5]), ([1.2, -0.1, 0.1], [1.0, 0.0, 0.0])],
    "reference_clamp": ([[1.0, 2.0], [2.0, 4.0]], [1.0, 0.0]),
    "unconstrained_trap": ([[1.0, 2.0], [2.0, 5.0]], [1.0, 0.0]),
}


def gap(gram: np.ndarray, w: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """How much a linear model of wᵀGw/2 could still fall: zero exactly at the KKT points."""
    gradient = gram @ w
    best, left = lower.copy(), 1.0 - lower.sum()
    for i in np.argsort(gradient):
        more = min(upper[i] - lower[i], left)
        best[i] += more
        left -= more
    return float(gradient @ (w - best)) / max(float(gram.diagonal().mean()), 1e-300)


@st.composite
def boxes(draw, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds around some weights, as FedMGDA+ draws them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**30)))
    prior = rng.dirichlet(np.ones(n))
    reach = draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]))
    return np.maximum(prior - reach, 0.0), np.minimum(prior + reach, 1.0)


@st.composite
def grams(draw, largest: int) -> np.ndarray:
    """Gram matrices of vectors in general place, in few dimensions, of all lengths, nearly one."""
    n = draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**30)))
    kind = draw(st.sampled_from(["general", "deficient", "lengths", "alike", "repeated"]))
    if kind == "general":
        x = rng.normal(size=(n, 3 * n))
    elif kind == "deficient":
        x = rng.normal(size=(n, max(1, n // 3)))
    elif kind == "lengths":
        x = rng.normal(size=(n, 2 * n)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    elif kind == "alike":
        x = 1.0 + 0.01 * rng.normal(size=(n, 2 * n))
    else:
        x = rng.integers(-1, 2, size=(n, 3)).astype(float)
    return draw(st.sampled_from([1e-9, 1.0, 1e9])) * x @ x.T


@pytest.mark.parametrize(("v", "p"), MIN_NORM["proj_simplex"])
def test_the_projection_on_the_simplex(v, p):
    np.testing.assert_allclose(project_simplex(np.array(v)), p, atol=1e-12)


def test_the_projection_on_the_simplex_within_bounds():
    case = {name: np.array(value) for name, value in MIN_NORM["proj_box_simplex"].items()}
    solution = project_box_simplex(case["v"], case["lb"], case["ub"])
    np.testing.assert_allclose(solution, case["p"], atol=1e-12)


def test_bounds_that_no_weights_meet_are_refused():
    with pytest.raises(ValueError, match="no weights"):
        project_box_simplex(np.zeros(2), np.zeros(2), np.array([0.3, 0.3]))


vectors = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20).map(np.array)


@given(v=vectors)
def test_projections_agree_where_bounds_do_not_bind(v):
    solution = project_simplex(v)
    assert (solution >= 0).all()
    assert solution.sum() == pytest.approx(1.0, abs=1e-12)
    boxed = project_box_simplex(v, np.zeros(len(v)), np.ones(len(v)))
    np.testing.assert_allclose(boxed, solution, atol=1e-9)


@given(data=st.data(), v=vectors)
def test_the_projection_is_the_nearest_point(data, v):
    """⟨v − p, q − p⟩ ≤ 0 for every feasible q: the gap of ‖w − v‖² with G = I vanishes."""
    lower, upper = data.draw(boxes(len(v)))
    solution = project_box_simplex(v, lower, upper)
    assert solution.sum() == pytest.approx(1.0, abs=1e-9)
    assert (solution >= lower).all()
    assert (solution <= upper).all()
    other = project_box_simplex(np.random.default_rng(0).normal(size=len(v)), lower, upper)
    assert (v - solution) @ (other - solution) <= 1e-8


def test_min_norm_of_two_vectors_is_exact():
    np.testing.assert_allclose(min_norm(np.array(MIN_NORM["gram2"])), MIN_NORM["w2"], rtol=1e-15)
    for case in ("reference_clamp", "unconstrained_trap"):
        gram, expected = MIN_NORM[case]
        np.testing.assert_array_equal(min_norm(np.array(gram)), expected)
    np.testing.assert_array_equal(min_norm(np.ones((2, 2))), [0.5, 0.5])


def test_min_norm_of_two_vectors_within_bounds():
    gram = np.array(MIN_NORM["gram2"])
    solution = min_norm(gram, np.array([0.1, 0.1]), np.array([0.9, 0.6]))
    np.testing.assert_allclose(solution, [0.4, 0.6], atol=1e-15)


def test_min_norm_of_three_vectors():
    gram = np.array(MIN_NORM["gram3"])
    solution = min_norm(gram)
    np.testing.assert_allclose(solution, MIN_NORM["w3"], atol=1e-6)
    assert solution @ gram @ solution == pytest.approx(MIN_NORM["norm2_3"], abs=1e-6)


def test_min_norm_without_anything_to_choose():
    np.testing.assert_array_equal(min_norm(np.array([[3.0]])), [1.0])
    np.testing.assert_allclose(min_norm(np.zeros((4, 4))), np.full(4, 0.25))
    tight = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(min_norm(np.array(MIN_NORM["gram3"]), tight, tight), tight)


@settings(deadline=None)
@given(data=st.data(), gram=grams(largest=12))
def test_min_norm_meets_the_kkt_conditions(data, gram):
    n = len(gram)
    for lower, upper in ((np.zeros(n), np.ones(n)), data.draw(boxes(n))):
        w = min_norm(gram, lower, upper)
        assert w.sum() == pytest.approx(1.0, abs=1e-9)
        assert (w >= lower - 1e-15).all()
        assert (w <= upper + 1e-15).all()
        assert gap(gram, w, lower, upper) < 1e-9


@pytest.mark.parametrize("rank", [5, 100, 300])
@pytest.mark.parametrize("reach", [0.01, 1.0])
def test_min_norm_of_a_hundred_clients(rank, reach):
    rng = np.random.default_rng(rank)
    x = rng.normal(size=(100, rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    prior = rng.dirichlet(np.ones(100))
    lower, upper = np.maximum(prior - reach, 0.0), np.minimum(prior + reach, 1.0)
    gram = x @ x.T
    assert gap(gram, min_norm(gram, lower, upper), lower, upper) < 1e-11


def test_zero_vectors_get_no_weight():
    gram = np.diag([1.0, 0.0, 3.0])
    np.testing.assert_array_equal(alive(gram), [True, False, True])
    np.testing.assert_allclose(descent_weights(gram), [0.75, 0.0, 0.25])
    np.testing.assert_array_equal(descent_weights(np.zeros((3, 3))), np.zeros(3))
    np.testing.assert_array_equal(descent_weights(np.diag([1.0, np.inf])), [1.0, 0.0])


def test_the_linear_programme():
    gain, matrix = np.array([1.0, 0.0]), np.array([[-1.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(best_on_simplex(gain, matrix, np.array([0.0, -np.inf])), [0.5, 0.5])
    np.testing.assert_allclose(best_on_simplex(gain, matrix, np.full(2, -np.inf)), [1.0, 0.0])
    assert best_on_simplex(gain, matrix, np.array([2.0, 0.0])) is None
