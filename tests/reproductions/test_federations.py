"""Plans and printed figures of FedPref and its baselines."""

from __future__ import annotations

import pytest

from comity.errors import UserError
from comity.reproductions.federations import PARTS, REFERENCE_POINTS, TABLES, needs, plan, printed


@pytest.mark.parametrize("table", TABLES)
def test_every_variant_has_a_printed_figure_per_distribution(table):
    figures, about = printed(table, "deep-sea-treasure"), TABLES[table]
    assert figures.keys() == {
        (v, d, m) for v in about.variants for d in about.distributions for m in about.measures
    }


def test_printed_rows_of_the_ablations():
    figures = printed("thesis-4.2", "deep-sea-treasure")
    by_variant = [figures[part, "dirichlet", "mean_scalarised"][0] for part in PARTS]
    assert by_variant == [0.95, 0.55, -31.24, -21.83, 4.41, 1.21]
    figures = printed("thesis-4.7", "lunar-lander")
    key = ("fedpref[clustering=false]", "dirichlet", "hypervolume")
    assert figures[key] == pytest.approx((186.64e7, 13.9e7))
    figures = printed("thesis-A.8", "deep-sea-treasure")
    entry = "fedpref+ft[minimum_similarity=-0.6]"
    assert figures[entry, "dirichlet", "mean_scalarised"] == (4.63, 3.1)
    figures = printed("thesis-A.9", "deep-sea-treasure")
    assert figures["fedpref+ft[top_r=0.8]", "dirichlet", "mean_scalarised"] == (3.76, 4.0)


def test_the_cost_is_that_of_the_plan():
    # 6 variants, 1 distribution, 3 seeds, 2 protocols
    assert needs("thesis-4.2").hours["minecart-deterministic"] == pytest.approx(36 * 0.85)
    # 10 variants, 3 distributions
    assert needs("thesis-4.1").hours["deep-sea-treasure"] == pytest.approx(180 * 0.028)


def test_guessed_reference_points_are_called_guesses():
    guessed = {name for name, source in REFERENCE_POINTS.items() if "guess" in source}
    assert guessed == {"lunar-lander", "lunar-lander-continuous", "halfcheetah"}


def test_both_protocols_run_the_same_entries():
    campaign = plan("thesis-4.3", rows=["fedavg", "fedpref+ft"], seeds=2, preferences=["gaussian"])
    assert campaign.name == "thesis-4.3-deep-sea-treasure"
    paper, ours = campaign.plans["paper"], campaign.plans["ours"]
    assert paper == {**ours, "keep": "last", "guard": False}
    assert ours == {
        "problem": "deep-sea-treasure",
        "algorithms": ["fedavg", "fedpref+ft"],
        "seeds": 2,
        "preferences": ["gaussian"],
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"only": "adult-gender-dp"}, "problem of this table"),
        ({"rows": ["fedx"]}, "row of this table"),
        ({"preferences": ["same:1,0"]}, "distribution of this table"),
    ],
)
def test_what_a_table_does_not_have_is_refused(values, words):
    with pytest.raises(UserError, match=words):
        plan("thesis-4.1", **values)
