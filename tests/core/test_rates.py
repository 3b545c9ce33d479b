"""Rates of convergence."""

from __future__ import annotations

import numpy as np
import pytest

from comity.core.rates import fit_rate


def test_a_series_that_halves_its_gap_has_the_factor_one_half():
    values = [0.9 - 0.4 * 0.5**round for round in range(1, 9)]
    rate = fit_rate(values)
    assert rate is not None
    assert (rate.limit, rate.gap, rate.factor) == pytest.approx((0.9, 0.4, 0.5))
    assert rate.explained == pytest.approx(1)
    assert rate.explained_by_inverse < 0.995
    np.testing.assert_allclose(rate.at(np.arange(1, 9)), values)


def test_a_slower_series_is_better_explained_by_the_inverse_of_the_round():
    rate = fit_rate([0.9 - 0.4 / round for round in range(1, 30)])
    assert rate is not None
    assert rate.explained_by_inverse == pytest.approx(1)
    assert rate.explained < 0.99


def test_three_values_or_equal_ones_have_no_rate():
    assert fit_rate([0.1, 0.2, 0.3]) is None
    assert fit_rate([0.5] * 10) is None
    assert fit_rate([]) is None
