"""Tables, pictures and page of a tuning, from trials made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from printing import printed

from comity.report import write_tuning_report
from comity.report.figures import trial_front, trials, tuned_settings
from comity.report.tables import fit, trials_table, tunings_table
from comity.report.tunings import trial_headings, trial_rows
from comity.tuning import Tuning


def row(number: int, settings: dict[str, Any], *values: list[float | None]) -> dict[str, Any]:
    names = ("mean_scalarised", "megabytes")[: len(values)]
    means = [None if None in each else sum(map(float, each)) / len(each) for each in values]
    return {
        "trial": number,
        "settings": settings,
        "state": "undefined" if None in means else "done",
        "seeds": [1001, 1002],
        "budget": {"runs": 2, "rounds": 8, "steps": 1200},
        "values": dict(zip(names, values, strict=True)),
        "means": dict(zip(names, means, strict=True)),
        "runs": [],
    }


@pytest.fixture
def made(tmp_path: Path) -> Tuning:
    rows = [
        row(0, {"mu": 0.0, "keep": "best"}, [0.5, 0.7], [3.0, 3.0]),
        row(1, {"mu": 0.1, "keep": "last"}, [0.9, 0.7], [5.0, 5.0]),
        row(2, {"mu": 1.0, "keep": "best"}, [0.8, None], [1.0, 1.0]),
    ]
    results: Any = {
        "verdict": {"sentences": ["Chosen: <trial 1>."]},
        "problem": "p",
        "algorithm": "fedprox",
        "objectives": {"mean_scalarised": "higher", "megabytes": "lower"},
        "sampler": "tpe",
        "seed": 1,
        "seeds": [1001, 1002],
        "batch": 4,
        "space": {"mu": {"low": 0.01, "high": 1.0, "log": True}, "keep": ["best", "last"]},
        "settings": {},
        "budget": {"runs": 6, "rounds": 24, "steps": 3600},
        "chosen": 1,
        "front": [1, 0],
        "trials": rows,
    }
    return Tuning(tmp_path, results, {0: [], 1: [], 2: []})


def test_trials_stand_best_first_with_the_chosen_one_marked(made):
    assert trial_headings(made.results)[:5] == [
        *("trial", "mu", "keep", "mean scalarised ↑", "megabytes ↓")
    ]
    cells = [cells[:5] for _, cells in trial_rows(made)]
    assert cells == [
        ["1 ★", "0.1", "last", "0.8 ± 0.1", "5 ± 0"],
        ["0 (as it was)", "0.0", "best", "0.6 ± 0.1", "3 ± 0"],
        ["2", "1.0", "best", "undefined", "1 ± 0"],
    ]
    text = printed(trials_table(made))
    assert "Validation data only. Seeds 1001, 1002" in text
    assert "dominates: 0, 1." in text


def test_trials_of_two_settings_fit_a_terminal(made):
    rate, size = "supervised.learning_rate", "supervised.batch_size"
    for row in made.results["trials"]:
        row["settings"] = {rate: 0.0008763, size: 512}
        row["values"]["mean_scalarised"] = [0.88224, 0.88316]
        row["means"]["mean_scalarised"] = 0.8827
    made.results["space"] = {rate: [0.001], size: [512]}
    del made.results["objectives"]["megabytes"]
    table = trials_table(made)
    assert fit(table, 80) == 80
    lines = printed(table, width=80).splitlines()
    assert sum("0.8827 ± 0.00046" in line for line in lines) == 3  # no cell is broken


def test_pictures_have_a_panel_per_objective_and_setting(made):
    first, second, third = trials(made.results), tuned_settings(made.results), None
    third = trial_front(made.results)
    assert first is not None
    assert second is not None
    assert third is not None
    assert [axes.get_ylabel() for axes in first.axes] == ["mean scalarised ↑", "megabytes ↓"]
    assert [axes.get_xlabel() for axes in second.axes] == ["mu", "keep"]
    assert second.axes[0].get_xscale() == "log"
    assert [label.get_text() for label in second.axes[1].get_xticklabels()] == ["best", "last"]
    best = first.axes[0].get_lines()
    assert any(list(line.get_ydata()) == [0.6, 0.8] for line in best)


def test_one_objective_has_no_front_and_no_value_no_picture(made):
    results: Any = {**made.results, "objectives": {"mean_scalarised": "higher"}}
    assert trial_front(results) is None
    lost: Any = {**results, "trials": [made.results["trials"][2]], "chosen": None, "front": []}
    assert trials(lost) is None
    assert tuned_settings(lost) is None


def test_the_page_has_everything_and_escapes_it(made):
    page = write_tuning_report(made).read_text()
    assert "Chosen: &lt;trial 1&gt;." in page
    for text in ("From trial to trial", "By setting", "Front of trials", "best.toml", "0.8 ±"):
        assert text in page, text
    names = {path.name for path in made.path.iterdir()}
    assert {"trials.png", "settings.png", "front.png", "report.html"} <= names


def test_a_comparison_has_a_table_of_its_tunings():
    tuned = {
        "algorithm": "fedprox[mu=0.1,rounds=3]",
        "tuning": "runs/t",
        "objective": "mean_scalarised",
        "sampler": "tpe",
        "trials": 20,
        "seeds": [1001, 1002],
        "runs": 40,
        "rounds": 400,
        "steps": 12_000,
        "seconds": 33.3,
        "settings": {},
    }
    comparison: Any = {"rows": [], "tuned": [tuned]}
    table = tunings_table(comparison)
    assert table is not None
    text = printed(table)
    for part in ("fedprox", "20", "1001, 1002", "12,000", "33.3"):
        assert part in text
    assert tunings_table({"rows": []}) is None  # type: ignore[typeddict-item]
