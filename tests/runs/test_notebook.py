"""Runs and comparisons in a notebook: texts, tables, completion, rows for a data frame."""

from __future__ import annotations

from pathlib import Path

import pytest

import comity
from comity.errors import UserError
from comity.runs.compare import Comparison
from comity.runs.directory import Run
from comity.runs.execute import execute
from comity.runs.notebook import history_rows, run_html
from tests.tiny import tiny

MADE = {
    "problem": "p<q",
    "trivial": {"mean_scalarised": 0.5},
    "rows": [
        {
            "algorithm": name,
            "preferences": "dirichlet",
            "seeds": [1, 2],
            "metrics": {"mean_scalarised": {"mean": mean, "std": 0.0123}},
        }
        for name, mean in (("fedavg", 0.75), ("fedpref", 0.8))
    ],
}


def test_a_comparison_has_a_short_text_and_a_table():
    comparison = Comparison(Path("runs/c"), MADE, {})
    assert repr(comparison) == "<comity comparison runs/c: 2 rows, 2 seeds>"
    html = comparison._repr_html_()
    assert "<caption>p&lt;q, 2 seeds: runs/c</caption>" in html
    assert "<th>algorithm</th><th>preferences</th><th>mean_scalarised</th>" in html
    assert "<td>fedavg</td><td>dirichlet</td><td>0.75 ± 0.012</td>" in html
    assert "<td>trivial</td><td></td><td>0.5</td>" in html


def test_a_verdict_comes_first_where_there_is_one():
    results = {
        **{"algorithm": "a", "problem": "p", "clients": 2, "rounds": 3, "seed": 1},
        **{"metrics": {"x": 0.25}, "trivial": {"x": 1 / 3}, "verdict": "Nobody gained."},
    }
    html = run_html(results, Path("r"))
    assert "<caption>Nobody gained. (a on p, 2 clients, 3 rounds, seed 1: r)</caption>" in html
    assert "<th>measure</th><th>kept</th><th>trivial</th>" in html
    assert "<td>x</td><td>0.25</td><td>0.3333</td>" in html


def test_a_history_is_one_row_per_round_and_client():
    line = {
        **{"round": 1, "clients": [0, 2], "steps": [5, 6], "validation_steps": [1, 1]},
        **{"skipped": [0, 0], "declined": [False, True], "received": None},
        **{"trained": [[0.1, None], [0.3, 0.4]], "kept": [[1, 2], [3, 4]]},
    }
    assert history_rows([line], ["a", "b"])[1] == {
        **{"round": 1, "client": 2, "steps": 6, "validation_steps": 1, "skipped": 0},
        **{"declined": True, "received/a": None, "received/b": None},
        **{"trained/a": 0.3, "trained/b": 0.4, "kept/a": 3, "kept/b": 4},
    }


def test_a_run_shows_itself_and_offers_only_what_reads(tmp_path):
    run = Run.create(tmp_path / "r", tiny(clients=2, rounds=2, algorithm="fedavg"))
    assert run._repr_html_() is None
    execute(run)
    assert "fedavg on tiny-treasure, 2 clients, 2 rounds" in str(run._repr_html_())
    rows = run.history_table()
    assert [(row["round"], row["client"]) for row in rows] == [
        (number, client) for number in (1, 2, 3) for client in (0, 1)
    ]
    offered = {name for name in dir(run) if not name.startswith("_")}
    assert {"history", "history_table", "model", "results", "front"} <= offered
    assert not {name for name in offered if name.split("_")[0] in ("append", "cut", "save", "drop")}


def test_names_are_listed():
    assert {"fedavg", "fedpref"} <= set(comity.names("algorithms"))
    assert "deep-sea-treasure" in comity.names("problems")
    assert comity.names("generators") == sorted(comity.names("generators"))
    with pytest.raises(UserError, match=r"unknown kind of names 'datasets'.*problems"):
        comity.names("datasets")  # type: ignore[arg-type]
