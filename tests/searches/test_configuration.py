"""Settings of a search that are refused."""

from __future__ import annotations

import pytest

from comity.errors import UserError
from tests import tiny
from tests.searches.small import configuration

PEOPLE = tiny.PEOPLE.name


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
        ({"server_share": 0.3}, "server_share means nothing for tiny-treasure: .* environments"),
        ({"problem": "usps"}, "has one objective"),
        (
            {"problem": PEOPLE, "evaluation_episodes": 2},
            "evaluation_episodes means nothing .* data",
        ),
        ({"problem": PEOPLE, "server_share": 1.0}, "search.server_share"),
        ({"problem": PEOPLE, "server_share": 1e-4}, "server gets 0 rows, .* raise the share"),
        ({"problem": PEOPLE, "algorithm": "ditto"}, "ditto: .* Choose one of cfl, .*fedavg"),
        (
            {"problem": "adult-gender-dp", "algorithm": "agnostic-fair-pooled"},
            "agnostic-fair-pooled: .* fedpref",
        ),
        ({"search": 3}, "table of settings"),
        ({"client": 3}, "client"),
    ],
)
def test_wrong_settings_are_named(values, words):
    with pytest.raises(UserError, match=words):
        configuration(**values)
