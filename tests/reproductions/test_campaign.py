"""Campaigns with comparisons that are not executed at all."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import tomli_w

from comity.errors import UserError
from comity.reproductions import TABLES, reproduce
from comity.reproductions.campaign import Campaign, Kind, execute_campaign
from tests.events import round_event

PLANS = {"paper": {"problem": "p", "guard": False}, "ours": {"problem": "p", "guard": True}}


def start(problem, *, out, **settings):
    out.mkdir(parents=True)
    (out / "plan.toml").write_text(tomli_w.dumps({"problem": problem, "settings": settings}))
    return out


def execute(path, workers, notify):
    for number in (1, 2):
        notify(round_event(run=path.name, round=number, done=number, total=2))
    return SimpleNamespace(path=path, workers=workers)


def campaign(checked=("problem",), plans=PLANS):
    def tabulate(comparisons):
        return {"parts": [comparison.path.name for comparison in comparisons.values()]}

    return Campaign(Kind("plan.toml", start, execute), "some-table", plans, tabulate, checked)


def test_comparisons_share_one_progress_and_one_table(tmp_path):
    ticks = []
    out = tmp_path / "r"
    done = execute_campaign(
        "t-1",
        campaign(),
        out=out,
        workers=3,
        notify=lambda event: ticks.append((event.done, event.total, event.run)),
    )
    assert ticks == [(1, 4, "paper"), (2, 4, "paper"), (3, 4, "ours"), (4, 4, "ours")]
    assert (
        done.results == {"parts": ["paper", "ours"]} == json.loads((out / "t-1.json").read_text())
    )
    assert [comparison.workers for comparison in done.comparisons] == [3, 3]


def test_a_campaign_of_one_comparison_needs_no_directory_below_its_own(tmp_path):
    execute_campaign("t-1", campaign(plans={"": PLANS["ours"]}), out=tmp_path / "r")
    assert sorted(file.name for file in (tmp_path / "r").iterdir()) == ["plan.toml", "t-1.json"]


def test_a_new_directory_under_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(execute_campaign("t-1", campaign()).path) == "runs/some-table"


def test_earlier_comparisons_are_used_again_if_they_fit(tmp_path):
    out = tmp_path / "r"
    execute_campaign("t-1", campaign(), out=out)
    execute_campaign("t-2", campaign(("problem", "guard")), out=out)
    assert (out / "t-2.json").is_file()
    other = {name: {**plan, "guard": 3} for name, plan in PLANS.items()}
    execute_campaign("t-3", campaign(plans=other), out=out)
    with pytest.raises(UserError, match=r"paper holds runs with guard = False, not 3\. Choose"):
        execute_campaign("t-3", campaign(("problem", "guard"), other), out=out)


def test_unknown_tables_and_settings_that_a_table_fixes_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"thesis-9\.9"):
        reproduce("thesis-9.9", out=tmp_path / "r")
    for table in TABLES:
        with pytest.raises(UserError, match=r"problem: .* has its own; leave it out"):
            reproduce(table, problem="deep-sea-treasure", out=tmp_path / "r")
    with pytest.raises(UserError, match=r"preferences: thesis-5\.4 has its own"):
        reproduce("thesis-5.4", preferences=["gaussian"], out=tmp_path / "r")
    assert not (tmp_path / "r").exists()
