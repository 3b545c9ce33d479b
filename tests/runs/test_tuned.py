"""Entries of a comparison whose settings a tuning chose."""

from __future__ import annotations

import pytest

import tests.tiny  # noqa: F401  (which registers its problems)
from comity.errors import UserError
from comity.report.measures import display_names
from comity.runs.compare import open_comparison, run_plan, start_comparison
from comity.runs.tuned import equal_budgets
from comity.tuning import run_tuning, start_tuning

SHORT = {"clients": 2, "rounds": 1, "chunk": 2}
RATES = {"supervised.learning_rate": [0.02, 0.05]}


@pytest.fixture(scope="module")
def tunings(tmp_path_factory):
    """Tunings of two algorithms with three trials each, and one with two trials."""
    home = tmp_path_factory.mktemp("tunings")
    spaces = {
        "fedprox": ("fedprox", RATES),
        "fedavg+ft": ("fedavg+ft", RATES),
        "short": ("fedavg", {"supervised.learning_rate": [0.02]}),
    }
    found = {}
    for name, (algorithm, over) in spaces.items():
        values = {"problem": "tiny-people", "algorithm": algorithm, "seeds": [7, 8], **SHORT}
        path = start_tuning({**values, "sampler": "grid"}, over, home / name)
        found[name] = run_tuning(path)
    return found


def compared(tunings, entries, out, seeds=(1,), **settings):
    algorithms = [
        f"{tunings[entry].results['algorithm']}[tuned={tunings[entry].path}]"
        if entry in tunings
        else entry
        for entry in entries
    ]
    return start_comparison(
        "tiny-people", algorithms=algorithms, seeds=list(seeds), out=out, **{**SHORT, **settings}
    )


def entry_of(tuning):
    """The entry with chosen settings, written by hand."""
    results = tuning.results
    if results["chosen"] == 0:
        return results["algorithm"]
    rate = results["trials"][results["chosen"]]["settings"]["supervised.learning_rate"]
    return f"{results['algorithm']}[supervised.learning_rate={rate}]"


def test_equal_budgets_are_stated_with_seeds_and_steps(tunings, tmp_path):
    path = compared(tunings, ["no-communication", "fedprox", "fedavg+ft"], tmp_path / "c")
    results = run_plan(path).results
    expected = [entry_of(tunings["fedprox"]), entry_of(tunings["fedavg+ft"])]
    assert [row["algorithm"] for row in results["rows"]] == ["no-communication", *expected]
    assert [each["algorithm"] for each in results["tuned"]] == expected
    assert results["equal_budgets"] is True
    for each in results["tuned"]:
        assert (each["trials"], each["seeds"], each["runs"]) == (3, [7, 8], 6)
        assert each["steps"] == 6 * 2 * 3  # runs x clients x local steps
        assert each["seconds"] > 0
    text = " ".join(results["verdict"]["sentences"])
    assert "each with the same budget of 3 trials × 2 seeds: fedprox, fedavg+ft." in text
    assert "Not tuned: no-communication." in text
    assert [row["label"] for row in results["rows"][1:]] == ["fedprox[tuned]", "fedavg+ft[tuned]"]
    assert "fedprox[tuned]: federating paid" in text
    assert expected[0] not in text
    assert "tuned with and are compared here" not in text
    assert "other settings" not in text
    assert open_comparison(path).results == results


def test_unequal_budgets_shared_seeds_and_other_settings_are_stated(tunings, tmp_path):
    path = compared(tunings, ["fedprox", "short"], tmp_path / "c", seeds=(8, 9), rounds=2)
    results = run_plan(path).results
    assert results["equal_budgets"] is False
    text = " ".join(results["verdict"]["sentences"])
    assert "not tuned with the same budget: fedprox 3 trials × 2 seeds, fedavg 2 trials" in text
    assert "seeds 8 were tuned with and are compared here" in text
    assert "fedprox was tuned under other settings: rounds is 2, it was 1" in text


def test_an_algorithm_may_stand_beside_its_tuned_self(tunings, tmp_path):
    entries = ["fedavg+ft[supervised.learning_rate=0.3]", "fedavg+ft", "short", "fedavg"]
    if tunings["short"].results["chosen"] == 0:
        entries.pop()
    results = run_plan(compared(tunings, entries, tmp_path / "c")).results
    text = " ".join(results["verdict"]["sentences"])
    assert ("fedavg as it is" in text) is ("fedavg" in entries)
    assert "Not tuned: fedavg+ft[supervised.learning_rate=0.3]" in text


def test_a_tuned_entry_under_encodings_counts_as_tuned(tunings, tmp_path):
    path = compared(tunings, ["fedprox"], tmp_path / "c", encodings=["none", "int8"])
    results = run_plan(path).results
    assert len(results["rows"]) == 2
    shown = display_names(results["rows"]).values()
    assert list(shown) == ["fedprox[tuned]", "fedprox[tuned], int8"]
    assert not any("Not tuned" in text for text in results["verdict"]["sentences"])


def test_settings_as_they_were_are_no_second_entry(tunings, tmp_path):
    results = run_plan(compared(tunings, ["fedprox", "fedprox"], tmp_path / "c")).results
    assert [row["algorithm"] for row in results["rows"]] == [entry_of(tunings["fedprox"])]
    assert equal_budgets(results["tuned"])


def test_a_tuning_of_something_else_is_refused(tunings, tmp_path):
    path = tunings["fedprox"].path
    for problem, entry, fault in (
        ("tiny-people", f"fedavg[tuned={path}]", "tuned the algorithm fedprox, not fedavg"),
        ("tiny-answers", f"fedprox[tuned={path}]", "tuned the problem tiny-people"),
        ("tiny-people", f"fedprox[tuned={tmp_path}]", "is no finished tuning"),
    ):
        with pytest.raises(UserError, match=fault):
            start_comparison(problem, algorithms=[entry], out=tmp_path / "c", **SHORT)
    assert not (tmp_path / "c").exists()
