"""Runs and comparisons in a notebook: texts, tables, completion, rows for a data frame."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import numpy as np
import pytest

from comity.errors import UserError
from comity.runs.compare import Comparison, run_plan, start_comparison
from comity.runs.directory import Run
from comity.runs.execute import execute
from comity.runs.notebook import history_rows, results_html
from comity.searches.comparison import SearchComparison
from tests.searches.small import SMALL, made
from tests.tiny import tiny

SEED = SMALL.get("seed", 1)

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
    assert repr(comparison) == "<comity comparison runs/c: fedavg, fedpref on p<q, 2 seeds>"
    html = comparison._repr_html_()
    assert "<caption>p&lt;q, 2 seeds: runs/c</caption>" in html
    assert "<th>algorithm</th><th>preferences</th><th>mean_scalarised</th>" in html
    assert "<td>fedavg</td><td>dirichlet</td><td>0.75 ± 0.012</td>" in html
    assert "<td>trivial</td><td></td><td>0.5</td>" in html


def test_a_comparison_of_one_seed_has_means_alone():
    metrics = {"mean_scalarised": {"mean": 0.75, "std": None}}
    row = {"algorithm": "fedavg", "preferences": "dirichlet", "seeds": [1], "metrics": metrics}
    comparison = Comparison(Path("runs/c"), {**MADE, "rows": [row]}, {})
    assert repr(comparison) == "<comity comparison runs/c: fedavg on p<q, 1 seed>"
    html = comparison._repr_html_()
    assert "<caption>p&lt;q, 1 seed: runs/c</caption>" in html
    assert "<td>fedavg</td><td>dirichlet</td><td>0.75</td>" in html


def test_a_verdict_comes_first_where_there_is_one():
    results = {
        **{"algorithm": "a", "problem": "p", "clients": 2, "rounds": 3, "seed": 1},
        **{
            "metrics": {"x": 0.25},
            "trivial": {"x": 1 / 3},
            "verdict": {"sentences": ["Nobody gained."]},
        },
    }
    html = results_html(results, Path("r"))
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
    assert repr(run) == f"<comity run {run.path}: not finished>"
    execute(run)
    about = "fedavg on tiny-treasure, 2 clients, 2 rounds, seed 1"
    assert repr(run) == f"<comity run {run.path}: {about}>"
    html = str(run._repr_html_())
    assert about in html
    assert escape(run.results["verdict"]["sentences"][0]) in html
    assert [(row["round"], row["client"]) for row in run.rows("rounds")] == [
        (number, client) for number in (1, 2, 3) for client in (0, 1)
    ]
    offered = {name for name in dir(run) if not name.startswith("_")}
    assert {"history", "rows", "to_pandas", "model", "results", "front"} <= offered
    assert not {name for name in offered if name.split("_")[0] in ("append", "cut", "save", "drop")}
    (run.path / "results.json").write_text("{")
    assert repr(Run.open(run.path)) == f"<comity run {run.path}: damaged>"


def test_clients_of_a_run_are_a_data_frame(tmp_path):
    run = execute(Run.create(tmp_path / "r", tiny(clients=3, rounds=2, algorithm="fedavg")))
    frame = run.to_pandas()
    assert list(frame["client"]) == [0, 1, 2]
    names = list(run.results["per_client"][0]["objectives"])
    np.testing.assert_array_equal(frame[names].to_numpy(), run.vectors)
    np.testing.assert_array_equal(
        frame[[f"last/{name}" for name in names]].to_numpy(), run.vectors_last
    )
    np.testing.assert_allclose(
        frame[[f"preference/{name}" for name in names]].to_numpy(),
        run.configuration.get_preferences(),
        atol=1e-6,
    )
    rounds = run.to_pandas("rounds")
    last = rounds[(rounds["round"] == 2) & (rounds["client"] == 1)]
    assert last[f"trained/{names[0]}"].item() == run.history[1]["trained"][1][0]
    with pytest.raises(UserError, match=r"unknown table 'round'.*rounds"):
        run.rows("round")  # type: ignore[arg-type]


def test_a_comparison_has_clients_of_all_runs_and_its_own_table(tmp_path):
    path = start_comparison(
        "tiny-treasure", algorithms=["fedavg", "no-communication"], seeds=2, out=tmp_path / "c",
        clients=2, rounds=1, chunk=2,
    )  # fmt: skip
    comparison = run_plan(path)
    frame = comparison.to_pandas()
    assert len(frame) == 2 * 2 * 2
    chosen = frame[(frame["algorithm"] == "fedavg") & (frame["seed"] == 2)]
    run = comparison.runs["fedavg", "dirichlet"][1]
    assert list(chosen["scalarised"]) == [row["scalarised"] for row in run.results["per_client"]]
    table = comparison.to_pandas("entries")
    row = comparison.results["rows"][1]
    assert list(table["algorithm"]) == ["fedavg", "no-communication"]
    assert table["hypervolume"][1] == row["metrics"]["hypervolume"]["mean"]
    assert table["hypervolume/std"][1] == row["metrics"]["hypervolume"]["std"]


def test_a_search_has_points_and_iterations(tmp_path):
    search = made(tmp_path)
    assert repr(search).endswith(f"search on tiny-treasure, 6 candidates, seed {SEED}>")
    frame = search.to_pandas()
    names = list(search.results["front"][0]["objectives"])
    np.testing.assert_array_equal(frame[names].to_numpy(), search.front.vectors)
    weights = [point["weight"] for point in search.results["front"]]
    np.testing.assert_array_equal(frame[[f"weight/{n}" for n in names]].to_numpy(), weights)
    iterations = search.to_pandas("iterations")
    assert list(iterations["hypervolume"]) == [line["hypervolume"] for line in search.history]
    assert "<th>trivial</th>" in str(search._repr_html_())
    searches = SearchComparison(tmp_path, {"problem": "p", "rows": []}, {"a": [search]})  # type: ignore[typeddict-item]
    assert searches.rows()[0] == {"search": "a", "seed": SEED, **search.rows()[0]}


def test_without_pandas_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"pandas is not installed.*comity\[pandas\]"):
        Comparison(Path("runs/c"), MADE, {}).to_pandas()
