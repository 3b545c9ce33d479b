"""Execution of runs: names of directories, progress, checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import comity.report
from comity.errors import UserError
from comity.runs import execute as module
from comity.runs.directory import Run
from comity.runs.execute import check_workers, execute, execute_at, free_path, start_run
from tests.tiny import tiny


def test_a_directory_is_named_by_its_parts_and_numbered_if_it_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert free_path("mine:problem", "fedavg+ft", "seed3") == Path(
        "runs/mine-problem-fedavg+ft-seed3"
    )
    for expected in ("runs/a-b", "runs/a-b-2", "runs/a-b-3"):
        path = free_path("a", "b")
        assert path == Path(expected)
        path.mkdir(parents=True)


def test_a_started_run_has_a_directory_and_no_history(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = start_run({"problem": "tiny-treasure", "fine_tune": "replace-last", "seed": 3})
    assert run.path == Path("runs/tiny-treasure-fedpref+ft-seed3")
    assert run.history == []
    assert start_run({"problem": "tiny-treasure"}, "mine").path == Path("mine")
    with pytest.raises(UserError, match="unknown setting 'sead'"):
        start_run({"problem": "tiny-treasure", "sead": 3}, "other")
    assert not Path("other").exists()


def test_no_workers_are_refused():
    check_workers(1)
    with pytest.raises(UserError, match="workers = 0: must be at least 1"):
        check_workers(0)


def test_execution_tells_every_round_and_draws_nothing(tmp_path, monkeypatch):
    def fail(run: Run) -> None:
        raise AssertionError("execution must not draw")

    monkeypatch.setattr(comity.report, "write_report", fail)
    rounds: list[tuple[int, int]] = []
    configuration = tiny(clients=2, rounds=3, algorithm="fedavg")
    run = execute(
        Run.create(tmp_path / "a", configuration),
        on_round=lambda done, total, text: rounds.append((done, total)),
    )
    assert rounds == [(1, 3), (2, 3), (3, 3)]
    assert [line["round"] for line in run.history[:-1]] == [1, 2, 3]
    assert {path.name for path in run.path.iterdir()} == {
        *("config.toml", "history.jsonl", "checkpoint.safetensors", "models"),
        *("results.json", "timing.json"),
    }
    assert set(run.spent) == {"clients", "server"}
    other = Run.create(tmp_path / "b", configuration)
    execute_at(other.path, lambda done, total, text: None)
    assert other.results == run.results


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHECKPOINT_SECONDS", 0.0)
    run = execute(Run.create(tmp_path / "a", tiny(clients=2, rounds=1, algorithm="fedavg")))
    other = Run.create(tmp_path / "b", tiny(clients=3, rounds=1, algorithm="fedavg"))
    (other.path / "checkpoint.safetensors").write_bytes(
        (run.path / "checkpoint.safetensors").read_bytes()
    )
    with pytest.raises(UserError, match="checkpoint does not fit its configuration"):
        execute(other)


def test_a_run_continues_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHECKPOINT_SECONDS", 0.0)
    configuration = tiny(clients=2, rounds=3, algorithm="fedavg")
    run = Run.create(tmp_path / "a", configuration)

    def stop(done: int, total: int, text: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(run, on_round=stop)
    assert len(run.history) == 2
    rounds: list[int] = []
    execute(run, on_round=lambda done, total, text: rounds.append(done))
    assert rounds == [3]
    whole = execute(Run.create(tmp_path / "b", configuration))
    np.testing.assert_array_equal(run.vectors, whole.vectors)
