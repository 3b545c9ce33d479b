"""Execution of runs: names of directories, progress, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comity.report
from comity.errors import UserError
from comity.runs import execute as module
from comity.runs.directory import Run
from comity.runs.execute import check_workers, execute, execute_at, free_path, start_run
from tests.events import stopping
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
    events: list[Any] = []
    configuration = tiny(clients=2, rounds=3, algorithm="fedavg")
    run = execute(
        Run.create(tmp_path / "a", configuration),
        notify=events.append,
    )
    assert [type(event).__name__ for event in events] == [
        *("StartEvent", "RoundEvent", "RoundEvent", "RoundEvent", "EndEvent")
    ]
    assert [(event.round, event.done, event.total) for event in events[1:-1]] == [
        *((1, 1, 3), (2, 2, 3), (3, 3, 3))
    ]
    assert [line["round"] for line in run.history[:-1]] == [1, 2, 3]
    assert {path.name for path in run.path.iterdir()} == {
        *("checksums.json", "config.toml", "history.jsonl", "models", "results.json"),
        "timing.json",
    }
    assert set(run.spent) == {"clients", "server"}
    other = Run.create(tmp_path / "b", configuration)
    execute_at(other.path, lambda event: None)
    assert other.results == run.results


def test_a_checkpoint_of_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHECKPOINT_SECONDS", 0.0)
    settings = {"rounds": 1, "algorithm": "fedavg", "keep_checkpoint": True}
    run = execute(Run.create(tmp_path / "a", tiny(clients=2, **settings)))
    other = Run.create(tmp_path / "b", tiny(clients=3, **settings))
    (other.path / "checkpoint.safetensors").write_bytes(
        (run.path / "checkpoint.safetensors").read_bytes()
    )
    with pytest.raises(UserError, match="clients is 3, it was 2"):
        execute(other)


def test_a_run_continues_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHECKPOINT_SECONDS", 0.0)
    configuration = tiny(clients=2, rounds=3, algorithm="fedavg")
    run = Run.create(tmp_path / "a", configuration)

    with pytest.raises(KeyboardInterrupt):
        execute(run, notify=stopping(2))
    assert len(run.history) == 2
    events: list[Any] = []
    execute(run, notify=events.append)
    assert [event.round for event in events[:-1]] == [2, 3]  # it goes on after round 2
    whole = execute(Run.create(tmp_path / "b", configuration))
    np.testing.assert_array_equal(run.vectors, whole.vectors)


def test_a_finished_run_has_no_checkpoint_unless_asked(tmp_path):
    settings = {"clients": 2, "rounds": 1, "algorithm": "fedavg"}
    run = execute(Run.create(tmp_path / "a", tiny(**settings)))
    assert run.load_checkpoint() is None
    assert run.server_arrays == {}
    kept = execute(Run.create(tmp_path / "b", tiny(**settings, keep_checkpoint=True)))
    checkpoint = kept.load_checkpoint()
    assert checkpoint is not None
    assert kept.results == run.results


def test_arrays_of_the_server_are_found_in_the_checkpoint_of_older_runs(tmp_path):
    run = Run.create(tmp_path / "a", tiny(clients=2))
    run.save_checkpoint({"0/algorithm/agent.w": np.ones(2), "0/rows/w": np.zeros(2)}, {})
    assert list(run.server_arrays) == ["agent.w"]
    run.save_server({"agent.w": np.zeros(3)})
    assert run.server_arrays["agent.w"].tolist() == [0.0, 0.0, 0.0]


def events_of(path: Path, **settings: object) -> tuple[Run, list[Any]]:
    """Return a run and the events of its rounds."""
    events: list[Any] = []
    run = Run.create(path, tiny(algorithm="fedavg", problem="tiny-people", **settings))
    execute(run, notify=events.append)
    return run, events[1:-1]


def scalarised(run: Run, vectors: object) -> float:
    values = np.array(vectors, dtype=float) * run.configuration.get_preferences()
    return float(values.sum(axis=1).mean())


def test_an_event_has_the_values_of_the_round(tmp_path):
    run, events = events_of(tmp_path / "a", clients=2, rounds=2)
    assert [event.round for event in events] == [1, 2]
    assert {event.run for event in events} == {str(tmp_path / "a")}
    names = [objective.name for objective in run.configuration.get_problem().objectives]
    for event, line in zip(events, run.history, strict=False):
        kinds = [kind for kind in ("received", "trained", "kept") if line[kind] is not None]
        wanted = {
            f"{kind}/{name}": np.mean([vector[place] for vector in line[kind]])
            for kind in kinds
            for place, name in enumerate(names)
        }
        wanted["validated"] = scalarised(run, line["kept"])
        wanted |= {"bytes_up": line["bytes_up"], "bytes_down": line["bytes_down"]}
        assert event.metrics == pytest.approx(wanted)
        assert event.text == f"validated {wanted['validated']:.3g}"


def test_an_event_is_about_the_models_that_will_be_handed_over(tmp_path):
    settings = {"clients": 2, "rounds": 3, "keep": "last"}
    run, events = events_of(tmp_path / "a", **settings)
    second = scalarised(run, run.history[1]["received"])
    assert events[1].text == f"validated (last) {second:.3g}"
    assert events[1].metrics["validated"] == pytest.approx(second)
    tuned, events = events_of(tmp_path / "b", **settings, fine_tune="replace-last")
    trained = scalarised(tuned, tuned.history[2]["trained"])
    assert events[2].metrics["validated"] == pytest.approx(trained)
    every, events = events_of(tmp_path / "c", **settings, evaluate_every=3)
    # evaluated as if it were the end, which it is
    assert events[2].metrics["validated"] == pytest.approx(
        scalarised(every, every.history[3]["received"])
    )


def test_an_event_is_of_honest_clients(tmp_path):
    run, events = events_of(tmp_path / "a", clients=4, rounds=2, attack="sign-flip:2")
    honest = [client for client in range(4) if client not in run.configuration.attackers]
    kept = np.array(run.history[1]["kept"], dtype=float)[honest]
    preferences = run.configuration.get_preferences()[honest]
    assert events[1].metrics["validated"] == pytest.approx((kept * preferences).sum(axis=1).mean())
    name = run.configuration.get_problem().objectives[0].name
    assert events[1].metrics[f"kept/{name}"] == pytest.approx(kept[:, 0].mean())
    every, events = events_of(
        tmp_path / "b", clients=4, rounds=2, attack="sign-flip:2", keep="last", evaluate_every=2
    )
    received = np.array(every.history[2]["received"], dtype=float)[honest]
    assert events[1].metrics["validated"] == pytest.approx(
        (received * preferences).sum(axis=1).mean()
    )
