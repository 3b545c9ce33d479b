"""Tunings: trials, choice, validation only, equal whatever the workers or interruptions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import comity
import tests.tiny
from comity.configuration import configure, read_toml
from comity.errors import UserError
from comity.problems import Samples, register
from comity.runs.events import RoundEvent
from comity.runs.execute import execute_at
from comity.tuning import open_tuning, run_tuning, start_tuning
from comity.tuning.plan import tuning_seeds

SHORT = {"clients": 3, "rounds": 2, "chunk": 3}
VALUES = {"problem": "tiny-people", "algorithm": "fedprox", "seeds": 2, **SHORT}
OVER = {
    "mu": [0.0, 0.1, 10.0],
    "supervised.learning_rate": {"low": 1e-3, "high": 0.3, "log": True},
}


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    path = start_tuning(
        {**VALUES, "trials": 6, "batch": 2}, OVER, tmp_path_factory.mktemp("t") / "t"
    )
    events = []
    return run_tuning(path, notify=events.append), events


def test_every_trial_is_its_runs_and_their_validation(tuning):
    finished, _ = tuning
    results = finished.results
    assert [row["trial"] for row in results["trials"]] == list(range(6))
    assert results["seeds"] == [1001, 1002]
    for row in results["trials"]:
        runs = finished.runs[row["trial"]]
        assert [run.configuration.seed for run in runs] == [1001, 1002]
        for run, value in zip(runs, row["values"]["mean_scalarised"], strict=True):
            kept = np.array(run.history[-1]["kept"], dtype=float)
            preferences = run.configuration.get_preferences()
            assert value == pytest.approx((kept * preferences).sum(axis=1).mean())
            if row["trial"]:
                assert run.configuration.algorithm_settings["mu"] == row["settings"]["mu"]
                rate = run.configuration.learner_settings["learning_rate"]
                assert rate == row["settings"]["supervised.learning_rate"]
        assert row["means"]["mean_scalarised"] == pytest.approx(
            np.mean(row["values"]["mean_scalarised"])
        )
        assert row["budget"] == {"runs": 2, "rounds": 4, "steps": 2 * 3 * 2 * 3}
    means = [row["means"]["mean_scalarised"] for row in results["trials"]]
    assert results["chosen"] == int(np.argmax(means))
    assert results["budget"] == {"runs": 12, "rounds": 24, "steps": 6 * 36}


def test_trial_0_has_the_settings_as_they_are(tuning):
    finished, _ = tuning
    plain = configure({**{k: v for k, v in VALUES.items() if k != "seeds"}, "seed": 1001})
    assert finished.runs[0][0].configuration == plain
    assert finished.results["trials"][0]["settings"] == {
        "mu": plain.algorithm_settings["mu"],
        "supervised.learning_rate": plain.learner_settings["learning_rate"],
    }


def test_best_is_a_file_to_run(tuning):
    finished, _ = tuning
    best = configure(read_toml(finished.config))
    chosen = finished.runs[finished.results["chosen"]][0].configuration
    assert best.model_copy(update={"seed": 1001}) == chosen


def test_progress_counts_the_whole_tuning(tuning):
    _, events = tuning
    rounds = [event for event in events if isinstance(event, RoundEvent)]
    assert [event.done for event in rounds] == list(range(1, 25))
    assert {event.total for event in rounds} == {24}
    assert rounds[0].text == "trials 0 to 1 of 0 to 5"
    assert rounds[-1].text.startswith("trials 4 to 5 of 0 to 5, best so far 0.")


def test_rows_are_flat(tuning):
    finished, _ = tuning
    assert len(finished.rows()) == 6
    assert {"trial", "mu", "mean_scalarised", "steps", "seconds"} <= finished.rows()[0].keys()
    assert len(finished.rows("seeds")) == 12
    assert "fedprox on tiny-people, 6 trials" in repr(finished)
    assert "<table>" in finished._repr_html_()
    assert open_tuning(finished.path).results == finished.results


class KilledError(Exception):
    """Stands in for a killed process."""


def test_an_interruption_changes_no_byte(tuning, tmp_path):
    finished, _ = tuning
    path = start_tuning({**VALUES, "trials": 6, "batch": 2}, OVER, tmp_path / "again")
    left = [5]

    def work(place, notify):
        left[0] -= 1
        if not left[0]:
            raise KilledError
        execute_at(place, notify)

    with pytest.raises(KilledError):
        run_tuning(path, work=work)
    assert len(json.loads((path / "proposals.json").read_text())["trials"]) == 4
    with pytest.raises(UserError, match="not finished"):
        open_tuning(path)
    resumed = run_tuning(path)
    names = ("tuning.json", "proposals.json", "best.toml", "tuning.toml")
    for name in names:
        assert (path / name).read_bytes() == (finished.path / name).read_bytes(), name
    assert resumed.results == finished.results


def test_workers_change_no_byte(tmp_path):
    values = {**VALUES, "seeds": [5], "trials": 2, "rounds": 1}
    for name, workers in (("alone", 1), ("shared", 2)):
        run_tuning(start_tuning(values, OVER, tmp_path / name), workers)
    tables = [(tmp_path / name / "tuning.json").read_bytes() for name in ("alone", "shared")]
    assert tables[0] == tables[1]


def test_test_samples_do_not_influence_a_tuning(tmp_path):
    answers, seed = tests.tiny.ANSWERS, 1001
    dealt = answers.partitioned(3, seed, "stratified", "equal").client_rows()
    rows = np.concatenate([share.test for share in dealt])

    def scrambled() -> Samples:
        samples = answers.samples()
        columns = {name: column.clone() for name, column in samples.columns.items()}
        columns["label"][rows] = 1.0 - columns["label"][rows]
        columns["inputs"][rows] = 0.0
        return replace(samples, columns=columns)

    register(replace(answers, name="tiny-scrambled", samples=scrambled))
    tunings = [
        run_tuning(
            start_tuning(
                {**VALUES, "problem": name, "seeds": [seed], "trials": 6, "batch": 2},
                OVER,
                tmp_path / name,
            )
        )
        for name in ("tiny-answers", "tiny-scrambled")
    ]
    tested = [each.runs[0][0].results["metrics"]["accuracy"] for each in tunings]
    assert tested[0] != tested[1]  # the scrambling reaches the tests
    for part in ("trials", "chosen", "verdict"):
        assert tunings[0].results[part] == tunings[1].results[part], part


def test_a_grid_tries_every_combination_once(tmp_path):
    over = {"mu": [0.0, 1.0], "supervised.batch_size": {"low": 8, "high": 16, "step": 8}}
    values = {**VALUES, "seeds": [5], "sampler": "grid", "supervised": {"batch_size": 16}}
    tuning = run_tuning(start_tuning({**values, "fedprox": {"mu": 1.0}}, over, tmp_path / "t"))
    tried = [tuple(row["settings"].values()) for row in tuning.results["trials"]]
    assert sorted(tried) == [(0.0, 8), (0.0, 16), (1.0, 8), (1.0, 16)]
    assert tried[0] == (1.0, 16)  # as it was


def test_a_finite_space_is_not_tried_twice(tmp_path):
    values = {**VALUES, "seeds": [5], "trials": 9, "fedprox": {"mu": 3.0}}
    tuning = run_tuning(start_tuning(values, {"mu": [0.0, 1.0]}, tmp_path / "t"))
    assert sorted(row["settings"]["mu"] for row in tuning.results["trials"]) == [0.0, 1.0, 3.0]


def test_several_objectives_have_a_front(tmp_path):
    over = {"encoding": ["none", "int8"]}
    values = {**VALUES, "seeds": [5], "sampler": "grid"}
    values["objectives"] = ["megabytes", "worst_scalarised"]
    tuning = run_tuning(start_tuning(values, over, tmp_path / "t"))
    whole, small = tuning.results["trials"]
    sent = tuning.runs[0][0].results["communication"]
    assert whole["means"]["megabytes"] == (sent["bytes_up"] + sent["bytes_down"]) / 1e6
    assert small["means"]["megabytes"] < whole["means"]["megabytes"]
    assert tuning.results["chosen"] == 1
    worst = [row["means"]["worst_scalarised"] for row in (whole, small)]
    assert tuning.results["front"] == ([1] if worst[1] >= worst[0] else [1, 0])
    kept = np.array(tuning.runs[0][0].history[-1]["kept"], dtype=float)
    scalarised = (kept * tuning.runs[0][0].configuration.get_preferences()).sum(axis=1)
    assert worst[0] == pytest.approx(scalarised.min())


def test_trials_that_diverge_or_exclude_each_other_have_no_value(tmp_path):
    over = {"keep": ["best", "last"], "alone_share": [0.0, 0.5]}
    values = {**VALUES, "seeds": [5], "sampler": "grid"}
    tuning = run_tuning(start_tuning(values, over, tmp_path / "excluded"))
    states = {tuple(r["settings"].values()): r["state"] for r in tuning.results["trials"]}
    assert states["last", 0.5] == "refused"
    assert set(states.values()) == {"done", "refused"}
    assert any("Refused: trial" in text for text in tuning.results["verdict"]["sentences"])
    over = {"supervised.learning_rate": [1e30]}
    values = {**VALUES, "seeds": [5], "supervised": {"optimiser": "sgd"}}
    tuning = run_tuning(start_tuning({**values, "sampler": "grid"}, over, tmp_path / "diverged"))
    assert [row["state"] for row in tuning.results["trials"]] == ["done", "undefined"]
    assert tuning.results["chosen"] == 0
    sentences = " ".join(tuning.results["verdict"]["sentences"])
    assert "No trial is better" in sentences
    assert "Without a value: trial 1" in sentences


def test_environments_are_judged_by_validation_episodes(tmp_path):
    values = {"problem": "tiny-treasure", "algorithm": "fedavg", "seeds": [7], **SHORT}
    over = {"dqn.learning_rate": [1e-3]}
    tuning = run_tuning(start_tuning({**values, "sampler": "grid"}, over, tmp_path / "t"))
    for row in tuning.results["trials"]:
        (run,) = tuning.runs[row["trial"]]
        kept = np.array(run.history[-1]["kept"], dtype=float)
        mean = (kept * run.configuration.get_preferences()).sum(axis=1).mean()
        assert row["means"]["mean_scalarised"] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("values", "over", "fault"),
    [
        ({"trials": 0}, OVER, "trials = 0"),
        ({"seeds": [1, 1]}, OVER, "seeds = "),
        ({"sampler": "grid"}, OVER, "supervised.learning_rate has endlessly many values"),
        ({"sampler": "grid", "trials": 3}, {"mu": [1.0]}, "leave it out"),
        ({"sampler": "best"}, OVER, "sampler = 'best'"),
        ({"objectives": ["acuracy"]}, OVER, "Did you mean 'accuracy'"),
        ({"objectives": ["accuracy", "accuracy"]}, OVER, "twice"),
        ({"algorithm": "fedprox[mu=1]"}, OVER, "give the name alone"),
        ({"algorithm": "fedprix"}, OVER, "Did you mean 'fedprox'"),
        ({}, None, "no paper prints a grid for fedprox on tiny-people"),
        ({}, "nowhere.toml", "no file nowhere.toml"),
        ({"rounds": 0}, OVER, "rounds = 0"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(values, over, fault, tmp_path):
    with pytest.raises(UserError, match=fault):
        start_tuning({**VALUES, **values}, over, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_the_printed_grid_is_the_default(tmp_path):
    values = {"problem": "deep-sea-treasure", "algorithm": "fedprox", "clients": 3}
    plan = read_toml(start_tuning(values, None, tmp_path / "t") / "tuning.toml")
    assert plan["over"] == {"mu": [0.01, 0.1, 1.0], "dqn.local_steps": [500, 1000, 1500]}
    assert (plan["sampler"], plan["trials"]) == ("grid", 10)


def test_seeds_are_not_those_of_comparisons():
    assert tuning_seeds(3) == [1001, 1002, 1003]
    assert tuning_seeds([4, 5]) == [4, 5]


def test_from_python(tmp_path):
    tuning = comity.tune(
        "tiny-answers",
        algorithm="fedprox",
        over={"mu": [0.0, 1.0]},
        sampler="grid",
        seeds=1,
        out=tmp_path / "t",
        clients=3,
        rounds=1,
    )
    assert isinstance(tuning, comity.Tuning)
    assert tuning.best == tuning.results["trials"][tuning.results["chosen"]]["settings"]
    assert (tmp_path / "t" / "report.html").is_file()
    assert comity.open(tuning.path).results == tuning.results
