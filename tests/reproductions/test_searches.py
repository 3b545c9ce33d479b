"""Plans and printed figures of MOFL/D."""

from __future__ import annotations

import pytest

from comity.errors import UserError
from comity.reproductions.searches import PROBLEMS, ROWS, TABLES, plan, printed


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_printed_rows_are_known_rows(table, problem):
    figures = printed(table, problem)
    assert {measure for _, measure in figures} <= set(TABLES[table][1])
    assert {row for row, _ in figures} <= set(ROWS)
    assert figures


def test_rows_are_entries_of_a_comparison_of_searches():
    campaign = plan("thesis-3.2", rows=["3/10k/warm", "alone"], seeds=1, dqn={"total_steps": 1000})
    ours = campaign.plans["ours"]
    assert ours == {
        "problem": "deep-sea-treasure",
        "generators": [
            "annealing[clients=3,dqn.local_steps=100,warm_start=true]",
            "annealing[clients=1,dqn.local_steps=100,algorithm=no-communication]",
            "random[clients=3,dqn.local_steps=100,warm_start=true]",
            "random[clients=1,dqn.local_steps=100,algorithm=no-communication]",
        ],
        "seeds": 1,
        "dqn": {"total_steps": 1000},
    }
    assert campaign.plans["paper"] == {**ours, "harvest": False, "keep": "last"}


def test_one_protocol_alone():
    only = plan("thesis-3.2", rows=["alone"], protocol="paper").plans
    both = plan("thesis-3.2", rows=["alone"]).plans
    assert only == {"paper": both["paper"]}
    with pytest.raises(UserError, match="protocol 'mine'"):
        plan("thesis-3.2", protocol="mine")


@pytest.mark.parametrize("values", [{"only": "halfcheetah"}, {"rows": ["9/10k"]}])
def test_what_a_table_does_not_have_is_refused(values):
    with pytest.raises(UserError, match="of this table"):
        plan("thesis-3.2", **values)
