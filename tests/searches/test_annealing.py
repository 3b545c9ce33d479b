from __future__ import annotations

import numpy as np
import pytest
from benchmarks.generators import searched

from comity.searches import Findings
from comity.searches.annealing import Annealing, acceptance, neighbour, push

WEIGHT, HERE, THERE = np.array([0.5, 0.3, 0.2]), np.array([10.0, -5, 3]), np.array([8.0, -4, 3])


@pytest.mark.parametrize(
    ("alpha", "pushed"),
    [
        (1.1, (0.5274629468, 0.2615518745, 0.2109851787)),
        (1.05, (0.5143456963, 0.2799160252, 0.2057382785)),
    ],
)
def test_a_weight_is_pushed_where_its_point_leads(alpha, pushed):
    np.testing.assert_allclose(push(WEIGHT, HERE, THERE, alpha), pushed, atol=1e-9)


@pytest.mark.parametrize(
    ("rule", "chance"), [("linear", 0.6065306597), ("chebyshev", 0.4065696597), ("weak", 1.0)]
)
def test_acceptance_rules(rule, chance):
    step, weight = np.array([-3.0, 2.0]), np.array([0.6, 0.4])
    assert acceptance(step, weight, 2.0, rule) == pytest.approx(chance, abs=1e-9)


@pytest.mark.parametrize("rule", ["linear", "chebyshev", "weak"])
def test_what_is_nowhere_worse_is_always_taken(rule):
    assert acceptance(np.array([0.0, 1.0]), np.array([0.9, 0.1]), 1e-3, rule) == 1.0


def test_the_neighbour_is_the_nearest_that_neither_dominates():
    sample = np.array([(5.0, 5), (6, 6), (9, 4), (4, 8)])
    assert neighbour(0, sample) == 3
    assert neighbour(0, sample[:2]) is None, "who dominates is no neighbour"
    same = np.array([(5.0, 5), (5.001, 4.999)])
    assert neighbour(0, same) is None, "equal points are skipped"


def test_with_exact_training_it_finds_most_of_the_front():
    final = [searched(Annealing(), "deep-sea-treasure", 20, 5, seed)[-1] for seed in range(10)]
    assert np.mean(final) >= 992


def test_rejected_steps_leave_the_sample_where_it_is():
    cold = Annealing(temperature=1e-9, jitter=0.0)
    first = np.array([[0.5, 0.5], [0.2, 0.8]])
    draw = np.random.default_rng(0)
    nothing = np.zeros((0, 2))
    cold.propose(2, 2, Findings(nothing, nothing, nothing, 8), draw)
    good = np.array([[10.0, -1.0], [5.0, 0.0]])
    cold.learn(first, good, Findings(first, good, good, 8), draw)
    at = Findings(first, good, good, 8)
    before = cold.propose(2, 2, at, draw)
    cold.learn(before, good - 4.0, at, draw)  # worse in everything
    np.testing.assert_array_equal(cold.propose(2, 2, at, draw), before)
