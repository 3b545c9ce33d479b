"""Levels that objectives should reach."""

from __future__ import annotations

import numpy as np
import pytest

from comity.errors import UserError
from comity.explore.aspirations import choose

PREFERENCES = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
VALUES = np.array([[0.2, 0.9], [0.6, 0.7], [0.8, 0.1]])
NAMES = ["accuracy", "fairness"]


def chosen(levels, own, values=VALUES):
    return choose(levels, PREFERENCES, np.array(values), np.array(own), NAMES)


def test_of_those_that_reach_all_levels_the_clients_preference_decides():
    # 0.5 accuracy: the second and the third; fairness counts nearly alone: 0.9 · 0.7 > 0.9 · 0.1
    choice = chosen([0.5, None], [0.1, 0.9])
    assert (choice.place, choice.met) == (1, True)
    assert choice.preference.tolist() == [0.5, 0.5]
    # accuracy counts nearly alone
    assert chosen([0.5, None], [0.9, 0.1]).place == 2


def test_if_none_does_the_largest_shortfall_is_smallest():
    # spans: 0.6 and 0.8. Shortfalls of (0.7, 0.8) in shares of them: first 0.5/0.6 = 0.83;
    # second 0.1/0.6 = 0.17 and 0.1/0.8 = 0.125; third 0.7/0.8 = 0.875
    choice = chosen([0.7, 0.8], [0.5, 0.5])
    assert (choice.place, choice.met) == (1, False)
    assert choice.text == (
        "No model reaches all levels; the nearest: accuracy reaches 0.6 of 0.7, fairness reaches "
        "0.7 of 0.8."
    )


def test_shortfalls_are_shares_of_what_candidates_span():
    # spans 100 and 1: shortfalls 10/100 = 0.1 against 0.5/1: the first, though 10 > 0.5
    values = [[90.0, 1.0], [100.0, 0.5], [0.0, 0.0]]
    assert chosen([100.0, 1.0], [0.5, 0.5], values).place == 0


def test_a_level_is_reached_by_equality():
    assert chosen([0.6, 0.7], [0.5, 0.5]).met


def test_undefined_candidates_are_never_chosen():
    values = [[np.nan, 0.9], [0.6, 0.7], [0.8, np.nan]]
    assert chosen([0.1, None], [1.0, 0.0], values).place == 1


def test_no_levels_choose_what_is_worth_most():
    choice = chosen([None, None], [0.0, 1.0])
    assert (choice.place, choice.met) == (0, True)


def test_there_is_one_level_per_objective():
    with pytest.raises(UserError, match="2 objectives"):
        chosen([0.5], [0.5, 0.5])


def test_one_candidate_without_any_span():
    choice = choose([0.5, None], PREFERENCES[:1], VALUES[:1], np.array([0.5, 0.5]), NAMES)
    assert (choice.place, choice.met) == (0, False)
