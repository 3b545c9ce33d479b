"""What holds for every registered generator, and how the adaptive one compares."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.generators import searched

from comity.searches import Findings, generators
from comity.searches.gap import Gap, crossing, neighbours
from comity.searches.grid import spread_out
from comity.searches.uniform import Random


@pytest.fixture(params=sorted(generators()))
def cls(request):
    return generators()[request.param]


def played(cls, objectives, rounds=5, count=6):
    """Weights of some iterations against a made-up world, and the generator after them."""
    generator = cls()
    weights = vectors = np.zeros((0, objectives))
    proposed = []
    for number in range(rounds):
        findings = Findings(weights, vectors, vectors, rounds * count)
        new = generator.propose(count, objectives, findings, np.random.default_rng(number))
        reached = np.sqrt(new)  # a concave front: nothing dominates anything
        weights, vectors = np.concatenate([weights, new]), np.concatenate([vectors, reached])
        after = Findings(weights, vectors, vectors, rounds * count)
        generator.learn(new, reached, after, np.random.default_rng(100 + number))
        proposed.append(new)
    return np.array(proposed)


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_proposals_lie_on_the_simplex(cls, objectives):
    proposed = played(cls, objectives)
    assert proposed.shape == (5, 6, objectives)
    assert (proposed >= 0).all()
    np.testing.assert_allclose(proposed.sum(axis=2), 1.0)


def test_told_the_same_it_proposes_the_same(cls):
    np.testing.assert_array_equal(played(cls, 3), played(cls, 3))


def test_iterations_differ(cls):
    proposed = played(cls, 2)
    assert not np.array_equal(proposed[1], proposed[2])


def test_the_grid_is_equidistant_and_every_beginning_of_it_spread():
    proposed = played(generators()["grid"], 2).reshape(-1, 2)
    np.testing.assert_allclose(np.sort(proposed[:, 0]), np.linspace(0, 1, 30))
    assert spread_out(30, 2)[:3, 0].std() > 0.3


def test_gap_looks_where_two_neighbours_are_worth_the_same():
    near, far = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    here, there = np.array([[10.0, -10.0]]), np.array([[4.0, 0.0]])
    place = crossing(near, far, here, there)
    weight = near + place[:, None] * (far - near)
    assert (weight @ here.T).item() == pytest.approx((weight @ there.T).item())
    vectors = np.concatenate([here, there])
    findings = Findings(np.concatenate([near, far]), vectors, vectors, 10)
    (proposed,) = Gap().propose(1, 2, findings, np.random.default_rng(0))
    np.testing.assert_allclose(proposed, weight[0])


def test_neighbours_of_weights_on_the_simplex():
    corners = np.array([(1.0, 0, 0), (0, 1, 0), (0, 0, 1), (1 / 3, 1 / 3, 1 / 3)])
    edges = {tuple(edge) for edge in neighbours(corners).tolist()}
    assert {(0, 3), (1, 3), (2, 3)} <= edges
    line = np.array([(0.5, 0.5), (0.0, 1.0), (1.0, 0.0)])
    assert {frozenset(e) for e in neighbours(line).tolist()} == {
        frozenset({0, 1}),
        frozenset({0, 2}),
    }


def test_with_exact_training_gap_beats_random_weights():
    """After 30 candidates: all ten points in nearly every search, where the control misses one."""
    gap = np.array([searched(Gap(), "deep-sea-treasure", 6, 5, seed)[-1] for seed in range(20)])
    control = np.array(
        [searched(Random(), "deep-sea-treasure", 6, 5, seed)[-1] for seed in range(20)]
    )
    assert gap.mean() > 993.9
    assert gap.mean() > control.mean() + 2
