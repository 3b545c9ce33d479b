"""Intervals against scipy, values worked out by hand, and pairs counted one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from comity.core.intervals import Estimate, area_under_curve, difference, ranks_of, share


@pytest.mark.parametrize(("successes", "count"), [(0, 12), (1, 12), (7, 10), (31, 31), (400, 1000)])
def test_shares_have_wilsons_interval(successes, count):
    estimate = share(successes, count)
    referee = binomtest(successes, count).proportion_ci(0.95, method="wilson")
    assert estimate.value == successes / count
    np.testing.assert_allclose(estimate[1:], [referee.low, referee.high], atol=1e-9)


def test_a_share_of_nothing_is_undefined():
    assert all(map(math.isnan, share(0, 0)))


def test_differences_have_newcombes_interval():
    # the worked example of Newcombe (1998), method 10: 56/70 - 48/80
    estimate = difference(share(56, 70), share(48, 80))
    np.testing.assert_allclose(estimate, [0.2, 0.0524, 0.3339], atol=5e-5)


def test_the_area_counts_pairs():
    labels = np.array([True, True, True, False, False, False, False])
    scores = np.array([3.0, 1.0, 2.0, 2.0, 0.0, -1.0, 2.5])
    pairs = [(x > y) + 0.5 * (x == y) for x in scores[:3] for y in scores[3:]]
    estimate = area_under_curve(labels, scores)
    assert estimate.value == pytest.approx(sum(pairs) / 12)
    assert 0 < estimate.low < estimate.value < estimate.high < 1


def test_the_areas_interval_is_delongs():
    # positives 1, 3 and negatives 0, 2: shares of negatives below are 1/2 and 1, of positives
    # above 1 and 1/2, so the variance is 0.125 / 2 + 0.125 / 2 and the area 3/4
    estimate = area_under_curve(np.array([True, True, False, False]), np.array([1.0, 3, 0, 2]))
    half = 1.959964 * math.sqrt(0.125) / (0.75 * 0.25)
    ends = [1 / (1 + math.exp(-(math.log(3) + sign * half))) for sign in (-1, 1)]
    np.testing.assert_allclose(estimate, [0.75, *ends], rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "scores", "value"),
    [
        ([1, 1, 0, 0], [3, 2, 1, 0], 1.0),
        ([1, 1, 0, 0], [1, 1, 1, 1], 0.5),
        ([1, 0, 0], [1, 0, 2], 0.5),
    ],
    ids=["perfect", "equal", "single"],
)
def test_areas_without_an_interval(labels, scores, value):
    estimate = area_under_curve(np.array(labels, dtype=bool), np.array(scores, dtype=float))
    assert estimate.value == value
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


def test_an_area_needs_both_labels():
    assert all(map(math.isnan, area_under_curve(np.ones(3, dtype=bool), np.arange(3.0))))
    assert isinstance(area_under_curve(np.zeros(3, dtype=bool), np.arange(3.0)), Estimate)


def test_equal_values_share_their_mean_rank():
    assert ranks_of(np.array([3.0, 1.0, 3.0, 2.0, 3.0])).tolist() == [4, 1, 4, 2, 4]
    assert ranks_of(np.array([])).tolist() == []
