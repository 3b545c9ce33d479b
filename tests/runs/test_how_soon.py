"""Rounds and seconds until an accuracy, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from comity.errors import UserError
from comity.report.columns import first_text
from comity.runs.compare import start_comparison
from comity.runs.how_soon import first_round, how_soon, stable_round, with_how_soon


def run(*accuracies, rounds=20, every=5):
    """A run whose two clients differ by 0.2; rounds without an evaluation lie between."""
    history = [{"round": round} for round in range(1, rounds + 1)]
    for index, accuracy in enumerate(accuracies, 1):
        history[index * every - 1]["everyone"] = [[accuracy - 0.1], [accuracy + 0.1]]
    spent = {"clients": 30.0, "server": 10.0}
    return SimpleNamespace(
        history=history, spent=spent, configuration=SimpleNamespace(rounds=rounds)
    )


def test_the_first_evaluated_round_that_reaches_the_target_counts():
    soon = how_soon([run(0.5, 0.8, 0.7, 0.9), run(0.2, 0.3, 0.4, 0.5)], 0.75)
    assert soon == {"target": 0.75, "rounds": [10, None], "seconds": [20.0, None]}
    assert first_round(run(0.5, 0.8), 0.5) == 5, "reached exactly"
    assert first_round(run(), 0.1) is None, "never evaluated"


def test_stable_is_99_per_cent_of_the_highest():
    assert stable_round(run(0.5, 0.79, 0.8, 0.78)) == 15
    assert stable_round(run(0.5, 0.795, 0.8, 0.78)) == 10
    assert stable_round(run()) is None


def test_a_comparison_has_it_only_with_a_target():
    results = {"rows": [{"algorithm": "a", "preferences": "p"}]}
    runs = {("a", "p"): [run(0.6)]}
    assert with_how_soon(results, runs, None) is results
    (row,) = with_how_soon(results, runs, 0.6)["rows"]
    assert row["how_soon"]["rounds"] == [5]


@pytest.mark.parametrize(
    ("values", "text"),
    [([5, 10, 15], "10 ± 4.1"), ([5, None, 5], "5 (2 of 3)"), ([None], "never"), ([5.0], "5")],
)
def test_the_cell_says_how_many_seeds_got_there(values, text):
    assert first_text(values) == text


@pytest.mark.parametrize(
    ("problem", "values", "message"),
    [
        ("usps-mlp", {"target": 90}, "target = 90: must be an accuracy"),
        ("usps-mlp", {"target": True}, "target = True: must be an accuracy"),
        ("usps-mlp", {"target": 0.9, "rounds": 5}, "Set evaluate_every from 1 to 5"),
        ("usps-mlp", {"target": 0.9, "evaluate_every": 0}, "evaluate_every = 0 rounds"),
        ("deep-sea-treasure", {"target": 0.9}, "target means nothing for deep-sea-treasure"),
    ],
)
def test_a_target_that_means_nothing_is_refused(tmp_path, problem, values, message):
    with pytest.raises(UserError, match=message):
        start_comparison(problem, algorithms=["fedavg"], out=tmp_path / "c", **values)
    assert not (tmp_path / "c").exists()
