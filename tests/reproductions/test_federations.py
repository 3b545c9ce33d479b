"""Plans and printed figures of FedPref and its baselines."""

from __future__ import annotations

import pytest

from comity.errors import UserError
from comity.reproductions.federations import DISTRIBUTIONS, TABLES, VARIANTS, plan, printed


@pytest.mark.parametrize("table", TABLES)
def test_every_variant_has_a_printed_figure_per_distribution(table):
    figures = printed(table, "deep-sea-treasure")
    assert figures.keys() == {(v, d) for v in VARIANTS for d in DISTRIBUTIONS}


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
