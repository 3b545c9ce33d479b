"""Measures against values computed by hand or printed."""

from __future__ import annotations

import numpy as np
import pytest

from comity.core import pareto
from comity.problems import find

TREASURE = find("deep-sea-treasure").front()
MINECART = find("minecart-deterministic").front()


@pytest.mark.parametrize(
    ("reference", "volume"), [((0, -50), 994.3), ((-1, -101), 2303.0), ((0, -25), 401.8)]
)
def test_hypervolume_of_the_treasure_front(reference, volume):
    assert pareto.hypervolume(TREASURE, reference) == pytest.approx(volume)


def test_hypervolume_in_more_dimensions_and_of_points_below_the_reference():
    assert pareto.hypervolume(np.array([(1, 2, 1, 2), (2, 1, 2, 1)]), (0,) * 4) == 7
    assert pareto.hypervolume(np.array([(1, 1), (-1, 5)]), (0, 0)) == 1
    assert pareto.hypervolume(MINECART, (-1, -1, -200)) == pytest.approx(944.929, abs=1e-3)
    assert pareto.hypervolume(MINECART, (-1, -1, -50)) == pytest.approx(233.554, abs=1e-3)


def test_sparsity_and_igd_of_the_treasure_front():
    assert pareto.sparsity(TREASURE) == pytest.approx(138.44 / 9)
    without = np.array([p for p in TREASURE if p[0] != 22.4])
    assert pareto.hypervolume(without, (0, -50)) == pytest.approx(990.1)
    assert pareto.sparsity(without) == pytest.approx(19.4875)
    assert pareto.igd(without, TREASURE) == pytest.approx(0.2385372088)
    assert pareto.igd(TREASURE, TREASURE) == 0


def test_expected_utility():
    weights = np.array([[w, 1 - w] for w in (0, 0.25, 0.5, 0.75, 1)])
    assert pareto.expected_utility(TREASURE, weights) == pytest.approx(7.815)


def test_a_front_holds_each_vector_once_and_no_dominated_one():
    points = np.array([(1, 2), (2, 1), (1, 2), (0, 0), (2 + 1e-9, 1)])
    np.testing.assert_allclose(pareto.front(points), [(1, 2), (2, 1)])
    assert pareto.cardinality(points) == 2
    assert pareto.sparsity(np.array([(1.0, 2.0)])) == 0


def test_float32_returns_are_equal_to_what_they_mean():
    assert pareto.cardinality(np.array([(np.float32(8.2), -3), (8.2, -3)], dtype=float)) == 1


def test_all_measures_of_a_federation():
    preferences = np.array([[1.0, 0.0], [0.0, 1.0]])
    vectors = np.array([[8.2, -3.0], [0.7, -1.0]])
    measures = pareto.measures(vectors, preferences, (-1, -101), TREASURE, np.array([23.7, -1.0]))
    assert measures["mean_scalarised"] == pytest.approx((8.2 - 1.0) / 2)
    assert measures["mean_regret"] == pytest.approx((23.7 - 8.2) / 2)
    assert measures["cardinality"] == 2
    # two boxes from (-1,-101): 1.7 x 100 and 9.2 x 98, overlapping in 1.7 x 98
    assert measures["hypervolume"] == pytest.approx(1.7 * 100 + 9.2 * 98 - 1.7 * 98)
    assert set(measures) >= {"sparsity", "igd", "expected_utility"}


@pytest.mark.parametrize("objectives", [2, 3])
def test_a_set_without_a_point_has_measures_too(objectives):
    """If no client's model counts, measures are 0 and distances NaN; that is no error."""
    nothing, something = np.empty((0, objectives)), np.ones((1, objectives))
    assert pareto.front(nothing).shape == (0, objectives)
    assert pareto.hypervolume(nothing, (0,) * objectives) == 0.0
    assert pareto.sparsity(nothing) == 0.0
    assert pareto.cardinality(nothing) == 0
    assert pareto.expected_utility(nothing) == 0.0
    assert np.isnan(pareto.igd(nothing, something))
    assert np.isnan(pareto.igd(something, nothing))
    measures = pareto.set_measures(nothing, (0,) * objectives, None)
    assert measures == {
        "hypervolume": 0.0,
        "sparsity": 0.0,
        "cardinality": 0.0,
        "expected_utility": 0.0,
    }


STAIRS = np.array([(1, 3), (2, 2), (3, 1), (1, 2), (2, 1), (2, 2), (1, 1)], dtype=float)
"""Three points on the front, one of them twice; two behind it; one behind these."""


def test_ranks_count_the_fronts_before_a_vector():
    assert pareto.ranks(STAIRS).tolist() == [0, 0, 0, 1, 1, 0, 2]
    assert pareto.ranks(np.empty((0, 2))).tolist() == []
    nearly = np.array([(1.0, 1.0), (1.0 + 1e-9, 1.0)])  # equal but for noise
    assert pareto.ranks(nearly).tolist() == [0, 0]


def test_the_front_of_a_rank_is_what_is_left_of_the_others():
    fronts = [pareto.ranked_front(STAIRS, rank).tolist() for rank in range(4)]
    assert fronts == [[[1, 3], [2, 2], [3, 1]], [[1, 2], [2, 1]], [[1, 1]], []]
    volumes = [pareto.hypervolume(pareto.ranked_front(STAIRS, k), (0, 0)) for k in range(4)]
    assert volumes == [6, 3, 1, 0]
    assert pareto.ranked_front(np.empty((0, 2)), 0).shape == (0, 2)
