"""Comparisons of searches, started and executed without drawing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from comity.configuration import read_toml
from comity.errors import UserError
from comity.searches.comparison import (
    growth,
    open_searches,
    run_search_plan,
    search_values,
    start_searches,
)
from comity.searches.execution import execute_search_at
from tests.searches.small import SMALL
from tests.tiny import TINY

TINIER = {**{k: v for k, v in SMALL.items() if k != "control"}, "iterations": 2}


def count_work(path, notify):
    (path.parent / f"{path.name}.worked").touch()
    execute_search_at(path, notify)


def test_started_executed_and_opened_again(tmp_path):
    path = start_searches(TINY, generators=["gap"], seeds=[1, 4], out=tmp_path / "c", **TINIER)
    assert not list(path.glob("*/*")), "nothing is trained yet"
    with pytest.raises(UserError, match="not finished"):
        open_searches(path)
    comparison = run_search_plan(path, work=count_work)
    assert [row["search"] for row in comparison.results["rows"]] == ["gap", "random"]
    assert len(list(path.rglob("*.worked"))) == 4
    assert not list(path.rglob("*.html")), "execution does not draw"
    for row in comparison.results["rows"]:
        searches = comparison.searches[row["search"]]
        assert [search.configuration.seed for search in searches] == row["seeds"] == [1, 4]
        volumes = [search.results["metrics"]["hypervolume"] for search in searches]
        assert row["metrics"]["hypervolume"] == {"mean": np.mean(volumes), "std": np.std(volumes)}
        assert row["growth"] == growth(searches)
        assert all(search.control is None for search in searches), "random weights are a row"
    again = open_searches(path)
    assert again.results == comparison.results == json.loads((path / "searches.json").read_text())
    before = [file.stat().st_mtime_ns for file in sorted(path.rglob("results.json"))]
    run_search_plan(path)
    assert [file.stat().st_mtime_ns for file in sorted(path.rglob("results.json"))] == before


def test_a_table_that_describes_a_problem_is_of_any_kind():
    with pytest.raises(UserError, match=r"unknown problem\.kind 'tables'.*pictures"):
        start_searches({"kind": "tables"}, generators=["gap"])


def test_an_entry_is_a_generator_with_settings():
    assert search_values("gap") == {"search": {"generator": "gap"}}
    assert search_values("annealing[alpha=1.2,clients=4,stall=3,dqn.local_steps=9]") == {
        "search": {"generator": "annealing", "stall": 3},
        "annealing": {"alpha": 1.2},
        "clients": 4,
        "dqn": {"local_steps": 9},
    }


@pytest.mark.parametrize(
    ("generators", "words"),
    [
        (["gap", "gap"], "must not name a search or a seed twice"),
        (["magic"], "magic"),
        (["gap[tolerance"], r"not NAME or NAME\[setting=value"),
        (["gap[alpha=2]"], "alpha"),
    ],
)
def test_wrong_plans_leave_no_directory(tmp_path, generators, words):
    with pytest.raises(UserError, match=words):
        start_searches(TINY, generators=generators, out=tmp_path / "c", **TINIER)
    assert not (tmp_path / "c").exists()


def test_random_weights_are_added_only_where_no_entry_has_them(tmp_path):
    entries = ["gap[clients=3]", "random[clients=3]"]
    path = start_searches(TINY, generators=entries, out=tmp_path / "c", **TINIER)
    assert read_toml(path / "searches.toml")["generators"] == entries
