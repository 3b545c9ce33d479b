"""Properties of every registered generator."""

from __future__ import annotations

import numpy as np
import pytest

from comity.searches import Findings, generators


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
