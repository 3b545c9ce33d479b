"""Settings of a search that are refused."""

from __future__ import annotations

import pytest

from comity.errors import UserError
from tests.searches.small import configuration


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"preferences": "dirichlet"}, "preferences mean nothing"),
        ({"generator": "magic"}, "annealing"),
        ({"iterations": 0}, "search.iterations"),
        ({"reference_point": [0.0]}, "treasure, time"),
        ({"reference_point": [100.0, 0.0]}, "known front"),
        ({"spread": True, "clients": 4, "candidates": 2}, "more than the 2 candidates"),
        ({"spread": True, "clients": 2, "candidates": 3}, "multiple of clients"),
        ({"annealing": {"alpha": 0.5}}, "annealing.alpha"),
        ({"annealing": 3}, "table of settings"),
        ({"gap": {"tolerance": 0.1}}, "table of settings"),
        ({"fedprox": {"mu": 1.0}}, "table of settings"),
        ({"algorithm": "fedx"}, "fedx"),
        ({"algorithm": "fedcmoo"}, "fedcmoo needs .* differentiable"),
        ({"problem": "german-credit-gender-dp"}, "a search needs environments, .* comity compare"),
        ({"search": 3}, "table of settings"),
        ({"client": 3}, "client"),
    ],
)
def test_wrong_settings_are_named(values, words):
    with pytest.raises(UserError, match=words):
        configuration(**values)
