from __future__ import annotations

import numpy as np

from comity.searches import generators
from comity.searches.grid import spread_out
from tests.searches.test_candidates import played


def test_the_grid_is_equidistant_and_every_beginning_of_it_spread():
    proposed = played(generators()["grid"], 2).reshape(-1, 2)
    np.testing.assert_allclose(np.sort(proposed[:, 0]), np.linspace(0, 1, 30))
    assert spread_out(30, 2)[:3, 0].std() > 0.3
