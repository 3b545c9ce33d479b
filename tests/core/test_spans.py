"""Measures of what one model reaches at many preferences."""

from __future__ import annotations

import numpy as np
import pytest

from comity.core.spans import (
    distance,
    distinct,
    dominated_share,
    monotony,
    rank_correlation,
    regrets,
    undominated,
    width,
)

ASKED = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
STEADY = np.array([[0.6, 1.0], [0.7, 0.9], [0.8, 0.7]])


def test_a_vector_is_dominated_by_what_is_nowhere_worse_and_somewhere_better():
    others = np.array([[0.7, 0.9], [0.8, 0.8]])
    # (.7, .9) is met, not beaten; (.8, .7) is beaten by (.8, .8)
    assert undominated(STEADY, others).tolist() == [True, True, False]
    assert undominated(others, STEADY).tolist() == [True, True]


def test_the_width_is_measured_on_the_front_alone():
    assert width(STEADY) == pytest.approx(np.hypot(0.2, 0.3))
    assert width(np.vstack([STEADY, [[0.1, 0.1]]])) == pytest.approx(np.hypot(0.2, 0.3))
    assert width(STEADY[:1]) == 0


def test_the_distance_is_that_of_the_nearest_vector():
    # (.7, .9): sqrt(.09 + .01); the others are .4 and sqrt(.04 + .09) away
    assert distance(STEADY, (1.0, 1.0)) == pytest.approx(np.sqrt(0.1))


def test_ranks_alone_count_for_the_correlation():
    assert rank_correlation(
        np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 100.0])
    ) == pytest.approx(1)
    assert rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([5.0, 5.0, 5.0])) == 0
    # ranks (1, 2, 3, 4) and (2, 1, 4, 3): 1 - 6 * 4 / (4 * 15)
    swapped = np.array([2.0, 1.0, 4.0, 3.0])
    assert rank_correlation(np.arange(4.0), swapped) == pytest.approx(0.6)


def test_outcomes_follow_preferences_or_do_not():
    assert monotony(ASKED, STEADY) == pytest.approx(1)
    assert monotony(ASKED, STEADY[::-1]) == pytest.approx(-1)
    # accuracy follows, fairness stays
    assert monotony(ASKED, np.array([[0.6, 0.9], [0.7, 0.9], [0.8, 0.9]])) == pytest.approx(0.5)


def test_equal_outcomes_are_not_distinct():
    assert distinct(STEADY) == 1
    assert distinct(STEADY[[0, 0, 1]]) == pytest.approx(2 / 3)


def test_regret_is_what_a_preference_misses():
    asked = np.array([[1.0, 0.0], [0.5, 0.5]])
    best = np.array([[10.0, 0.0], [7.0, 6.0]])
    missed = regrets(asked, np.array([[9.0, 0.0], [6.0, 5.0]]), best)
    assert missed.tolist() == [1.0, 1.0]
    none = regrets(asked, best[None], best)
    assert none.shape == (1, 2)
    assert not np.signbit(none).any()  # 0, not -0, in results


def test_the_dominated_share_counts_vectors_that_another_beats():
    assert dominated_share(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0]])) == 0.25
