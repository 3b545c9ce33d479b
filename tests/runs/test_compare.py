"""Comparisons: plans, directories and the figures of the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tests.tiny  # noqa: F401  (which registers its problems)
from comity.configuration import read_toml
from comity.core.locks import held
from comity.errors import UserError
from comity.problems import find, register
from comity.runs.compare import (
    PLAN,
    open_comparison,
    run_plan,
    seed_list,
    start_comparison,
    with_common_reference,
)
from comity.runs.entries import merge, split_entries, with_encodings
from comity.runs.events import Event, RoundEvent
from comity.runs.spreads import spread_of

SHORT = {"clients": 2, "rounds": 1, "chunk": 2}


def test_seeds_are_a_number_or_a_list():
    assert seed_list(3) == [1, 2, 3]
    assert seed_list((11, 17)) == [11, 17]


def test_entries_are_split_at_commas_outside_brackets():
    text = "fedavg, fedpref[guard=false,top_r=1],cfl+ft"
    assert split_entries(text) == ["fedavg", "fedpref[guard=false,top_r=1]", "cfl+ft"]


def test_entries_under_several_encodings():
    entries = ["fedavg", "fedpref[top_r=1]", "no-communication", "cfl[encoding=exact]"]
    assert with_encodings(entries, ["none", "int8"]) == [
        *("fedavg", "fedavg[encoding=int8]"),
        *("fedpref[top_r=1]", "fedpref[top_r=1,encoding=int8]"),
        *("no-communication", "cfl[encoding=exact]"),
    ]
    with pytest.raises(UserError, match="int9"):
        with_encodings(entries, ["int9"])
    with pytest.raises(UserError, match="at least one"):
        with_encodings(entries, [])


@pytest.mark.parametrize("text", ["fedavg[", "fedavg[x", "fedavg]", "fedavg[]x"])
def test_what_is_no_entry_is_refused_by_its_name(text):
    with pytest.raises(UserError, match=r"algorithms: 'fedavg"):
        start_comparison("tiny-treasure", algorithms=split_entries(text), **SHORT)


@pytest.mark.parametrize("preferences", [3, [], {}])
def test_preferences_that_are_none_are_refused(preferences):
    with pytest.raises(UserError, match="preferences = "):
        start_comparison("tiny-treasure", algorithms=["fedavg"], preferences=preferences, **SHORT)


def test_entries_whose_names_look_alike_are_runs_of_their_own(tmp_path):
    entries = ["fedpref[threshold=2.5%]", "fedpref[threshold=2.5]"]
    path = start_comparison(
        "tiny-treasure", algorithms=entries, seeds=1, out=tmp_path / "c", **SHORT
    )
    comparison = run_plan(path)
    runs = [run for same in comparison.runs.values() for run in same]
    assert len({run.path for run in runs}) == 2
    thresholds = [run.configuration.algorithm_settings["threshold"] for run in runs]
    assert thresholds[0] != thresholds[1]


def test_a_run_that_is_not_of_the_plan_is_refused(tmp_path):
    path = start_comparison(
        "tiny-treasure", algorithms=["fedavg"], seeds=1, out=tmp_path / "c", **SHORT
    )
    (run,) = next(iter(run_plan(path).runs.values()))
    config = run.path / "config.toml"
    config.write_text(config.read_text().replace("seed = 1", "seed = 2"))
    with pytest.raises(UserError, match="seed is 2, it was 1 in its plan"):
        run_plan(path)


def test_a_second_process_is_told_who_works_at_a_comparison(tmp_path):
    path = start_comparison(
        "tiny-treasure", algorithms=["fedavg"], seeds=1, out=tmp_path / "c", **SHORT
    )
    with held(path), pytest.raises(UserError, match="c is in use: process"):
        run_plan(path)


def test_settings_are_merged_table_by_table():
    common = {"rounds": 2, "dqn": {"local_steps": 5, "gamma": 0.9}}
    assert merge(common, {"rounds": 3, "dqn": {"gamma": 0.5}}) == {
        "rounds": 3,
        "dqn": {"local_steps": 5, "gamma": 0.5},
    }
    assert common["rounds"] == 2


def test_mean_and_spread_are_of_the_runs_that_have_a_finite_measure():
    rows = [{"a": 1.0, "b": float("nan")}, {"a": 3.0, "c": 5.0}, {"a": float("inf")}]
    assert spread_of(rows) == {
        "a": {"mean": 2.0, "std": 1.0},
        "c": {"mean": 5.0, "std": None},
    }


def test_a_plan_is_checked_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for entries, fault in (
        (["fedavg", "fedavg"], "twice"),
        ([], "at least one algorithm"),
        (["fedavgg"], "fedavg"),
    ):
        with pytest.raises(UserError, match=fault):
            start_comparison("tiny-treasure", algorithms=entries)
    assert not list(tmp_path.iterdir())
    path = start_comparison("tiny-treasure", algorithms=["fedavg"], seeds=2, **SHORT)
    assert path == Path("runs/tiny-treasure-comparison")
    plan = read_toml(path / PLAN)
    assert plan["seeds"] == [1, 2]
    assert plan["preferences"] == ["dirichlet"]
    assert plan["settings"] == SHORT
    with pytest.raises(UserError, match="not finished"):
        open_comparison(path)
    with pytest.raises(UserError, match="exists already"):
        start_comparison("tiny-treasure", algorithms=["fedavg"], out=path)


def test_preferences_are_the_problems_or_the_presets(tmp_path):
    values = {"algorithms": ["fedavg"], "seeds": 1, "clients": 3}
    ours = start_comparison("adult-gender-dp", out=tmp_path / "ours", **values)
    thesis = start_comparison(
        "adult-gender-dp", out=tmp_path / "thesis", preset="thesis-fairness", **values
    )
    assert read_toml(ours / PLAN)["preferences"] == ["interior"]
    assert read_toml(thesis / PLAN)["preferences"] == ["dirichlet"]


def test_runs_are_keyed_by_entry_and_preferences(tmp_path):
    entries, kinds = ["fedavg", "no-communication"], ["dirichlet", "equidistant"]
    path = start_comparison(
        "tiny-treasure",
        algorithms=entries,
        seeds=2,
        preferences=kinds,
        out=tmp_path / "c",
        **SHORT,
    )
    events: list[Event] = []
    comparison = run_plan(path, notify=events.append)
    rounds = [event for event in events if isinstance(event, RoundEvent)]
    assert [(event.done, event.total) for event in rounds] == [(done, 8) for done in range(1, 9)]
    assert len(events) == 24  # eight runs of one round: start, round, end
    assert list(comparison.runs) == [(entry, kind) for entry in entries for kind in kinds]
    row = comparison.results["rows"][0]
    runs = comparison.runs["fedavg", "dirichlet"]
    values = [run.results["metrics"]["mean_scalarised"] for run in runs]
    assert row["metrics"]["mean_scalarised"]["mean"] == pytest.approx(sum(values) / 2)
    other = comparison.runs["no-communication", "dirichlet"]
    gains = [
        mine.results["metrics"]["mean_scalarised"] - its.results["metrics"]["mean_scalarised"]
        for mine, its in zip(runs, other, strict=True)
    ]
    assert row["paired"]["no-communication"]["each"] == [round(gain, 6) for gain in gains]
    assert row["runs"] == ["fedavg_dirichlet/seed-1", "fedavg_dirichlet/seed-2"]
    opened = open_comparison(path)
    assert opened.results == comparison.results
    assert list(opened.runs) == list(comparison.runs)


def test_igd_of_several_comparisons_is_measured_from_one_set(tmp_path):
    unknown = register(replace(find("tiny-treasure"), name="no-front", known_front=None))
    comparisons = {}
    for name, settings in (("paper", {"keep": "last"}), ("ours", {"seeds": [7, 8]})):
        path = start_comparison(
            unknown.name, algorithms=["fedavg"], out=tmp_path / name, **{**SHORT, **settings}
        )
        comparisons[name] = run_plan(path)
    common = with_common_reference(comparisons)
    every = [run for c in common.values() for runs in c.runs.values() for run in runs]
    points = np.unique(np.concatenate([run.vectors for run in every]), axis=0)
    better = (points[None] >= points[:, None]).all(-1) & (points[None] > points[:, None]).any(-1)
    union = points[~better.any(1)]
    for comparison in common.values():
        values = [
            np.mean([np.linalg.norm(run.vectors - z, axis=1).min() for z in union])
            for run in comparison.runs["fedavg", "dirichlet"]
        ]
        assert comparison.results["rows"][0]["metrics"]["igd"]["mean"] == pytest.approx(
            np.mean(values)
        )
        assert open_comparison(comparison.path).results == comparison.results
        written = np.loadtxt(comparison.path / "reference_set.csv", delimiter=",", ndmin=2)
        assert sorted(written.tolist()) == sorted(union.tolist())


def test_a_wrapper_of_another_kind_is_refused():
    with pytest.raises(UserError, match="wrapper"):
        start_comparison("tiny-treasure", algorithms=["fedavg"], wrapper=[1, 2], **SHORT)
