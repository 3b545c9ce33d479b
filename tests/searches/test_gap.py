from __future__ import annotations

import numpy as np
import pytest
from benchmarks.generators import searched

from comity.searches import Findings
from comity.searches.gap import Gap, crossing, neighbours
from comity.searches.uniform import Random


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
