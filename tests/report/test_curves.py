"""Curves read a history correctly, absent clients and missing values included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from histories import entry

from comity.report.series.curves import curves
from comity.runs.directory import Run

HALF = [[0.5, 0.5], [1.0, 0.0]]


def test_values_are_scalarised_by_each_clients_preference(made: Callable[..., Run]) -> None:
    run = made([[8.2, -3.0], [0.7, -1.0]], preferences=HALF)
    np.testing.assert_allclose(curves(run).values["kept"], [[2.6, 0.7]] * 3)


def test_steps_count_training_and_validation(made: Callable[..., Run]) -> None:
    run = made([[8.2, -3.0], [0.7, -1.0]], preferences=HALF)
    np.testing.assert_allclose(curves(run).steps, [110.0, 220.0, 330.0])


def test_absent_clients_stand_still(made: Callable[..., Run]) -> None:
    history = [
        entry(1, [[8.0, -4.0]], clients=[0]),
        entry(2, [[3.0, -1.0]], clients=[1]),
        entry(3, [[10.0, -4.0]], clients=[0]),
    ]
    found = curves(made([[1.0, -1.0]] * 2, history, preferences=HALF))
    np.testing.assert_allclose(found.values["kept"], [[2.0, np.nan], [2.0, 3.0], [3.0, 3.0]])
    np.testing.assert_allclose(found.mean("kept"), [2.0, 2.5, 3.0])
    np.testing.assert_allclose(found.steps, [55.0, 165.0, 275.0])


def test_a_client_without_a_finite_value_stands_still(made: Callable[..., Run]) -> None:
    kept = [[8.0, -4.0], [3.0, -1.0]]
    history = [
        entry(1, kept, trained=kept),
        entry(2, kept, trained=[[None, None], [5.0, -1.0]]),
        entry(3, kept),
    ]
    found = curves(made(kept, history, preferences=HALF))
    np.testing.assert_allclose(found.values["trained"], [[2.0, 3.0], [2.0, 5.0], [np.nan, np.nan]])


def test_regret_is_the_distance_to_the_known_optimum(made: Callable[..., Run]) -> None:
    # with all weight on treasure the best is 23.7; (0.5, 0.5) finds nothing above (16.1 - 9) / 2
    run = made([[8.2, -3.0], [0.7, -1.0]], preferences=HALF)
    regret = curves(run).regret("kept")
    assert regret is not None
    np.testing.assert_allclose(regret, (3.55 - 2.6 + 23.7 - 0.7) / 2, atol=1e-5)


def test_quartiles_hold_the_middle_half_of_the_clients(made: Callable[..., Run]) -> None:
    vectors = [[float(value), -1.0] for value in range(1, 6)]
    run = made(vectors, preferences=[[1.0, 0.0]] * 5)
    low, high = curves(run).quartiles("kept")
    assert (low[0], high[0]) == (2.0, 4.0)
