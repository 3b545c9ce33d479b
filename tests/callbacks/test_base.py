"""Callbacks get every event in the caller's process, change no bit, and may raise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import comity
import comity.report
import comity.runs.execute
from comity.callbacks import notifying
from comity.errors import UserError
from comity.runs.compare import run_plan, start_comparison
from comity.runs.execute import execute
from tests.events import round_event
from tests.searches.small import configuration as search_configuration
from tests.tiny import TINY, tiny

SHORT: dict[str, Any] = {"clients": 2, "rounds": 2, "chunk": 2}
ENTRIES = ["fedavg", "no-communication"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> None:
    """Draw nothing, and write below a directory of the test."""
    monkeypatch.chdir(tmp_path)
    for name in ("write_report", "write_search_report", "write_comparison_report"):
        monkeypatch.setattr(comity.report, name, lambda *rest: None)


class Noted(comity.Callback):
    """Keeps all events, and draws random numbers as a careless callback does."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.closed = 0

    def _note(self, event: Any) -> None:
        self.events.append(event)
        torch.manual_seed(len(self.events))
        np.random.seed(len(self.events))
        random.seed(len(self.events))

    on_start = on_round = on_end = _note

    def close(self) -> None:
        self.closed += 1


def contents(path: Path) -> dict[str, bytes]:
    names = ["config.toml", "history.jsonl", "results.json", "models/client-1.safetensors"]
    return {name: (path / name).read_bytes() for name in names}


def test_callbacks_get_start_rounds_and_end_and_change_no_bit():
    noted, rounds = Noted(), []
    settings = {**SHORT, "algorithm": "fedpref", "seed": 3}
    run = comity.run("tiny-people", out="a", on_round=rounds.append, callbacks=[noted], **settings)
    start, *between, end = noted.events
    assert isinstance(start, comity.StartEvent)
    assert isinstance(end, comity.EndEvent)
    assert rounds == between
    assert [(event.round, event.done, event.total) for event in between] == [(1, 1, 2), (2, 2, 2)]
    assert {(event.run, event.problem, event.algorithm, event.seed) for event in noted.events} == {
        ("a", "tiny-people", "fedpref", 3)
    }
    assert (start.round, start.settings["clients"]) == (0, 2)
    assert start.settings["fedpref"] == run.configuration.algorithm_settings
    assert end.results == run.results
    assert end.seconds == run.seconds >= between[1].seconds >= between[0].seconds > 0
    assert between[1].participants == (0, 1)
    assert between[1].vectors["kept"] == run.history[1]["kept"]
    assert noted.closed == 1
    plain = comity.run("tiny-people", out="b", **settings)
    assert contents(run.path) == contents(plain.path)


def test_events_of_other_processes_arrive_here():
    noted = Noted()
    path = start_comparison(TINY.name, algorithms=ENTRIES, seeds=1, out="c", **SHORT)
    with notifying([noted], None) as notify:
        comparison = run_plan(path, 2, notify)
    rounds = [event for event in noted.events if isinstance(event, comity.RoundEvent)]
    assert [(event.done, event.total) for event in rounds] == [(done, 4) for done in range(1, 5)]
    for entry in ENTRIES:
        (run,) = comparison.runs[entry, "dirichlet"]
        events = [event for event in noted.events if event.run == str(run.path)]
        assert [type(event).__name__ for event in events] == [
            *("StartEvent", "RoundEvent", "RoundEvent", "EndEvent")
        ]
        assert [event.round for event in events[:-1]] == [0, 1, 2]
        assert {event.algorithm for event in events} == {entry}
        assert events[-1].results == run.results


def test_a_search_has_events_and_so_has_its_control():
    noted = Noted()
    search = comity.Search.create(Path("s"), search_configuration(generator="grid", control=True))
    comity.resume(search, callbacks=[noted])
    rounds = [event for event in noted.events if isinstance(event, comity.RoundEvent)]
    assert [event.done for event in rounds] == [*range(1, rounds[0].total + 1)]
    half = len(rounds) // 2
    assert [event.control for event in rounds] == [False] * half + [True] * half
    assert rounds[half - 1].round == rounds[-1].round == half == rounds[0].rounds
    volume = rounds[-1].metrics["hypervolume"]
    assert rounds[-1].text == f"control: iteration 3, hypervolume {volume:.6g}"
    ends = [event for event in noted.events if isinstance(event, comity.EndEvent)]
    assert [event.run for event in ends] == ["s/control", "s"]
    assert ends[1].results == search.results


class Failing(Noted):
    """Raises in the second round."""

    def on_round(self, event: comity.RoundEvent) -> None:
        if event.done == 2:
            raise ZeroDivisionError("mine")


def test_an_error_of_a_callback_reaches_the_caller_and_the_run_goes_on_later(monkeypatch):
    monkeypatch.setattr(comity.runs.execute, "_CHECKPOINT_SECONDS", 0.0)
    failing, settings = Failing(), {**SHORT, "rounds": 3, "algorithm": "fedavg"}
    with pytest.raises(ZeroDivisionError, match="mine"):
        comity.run("tiny-treasure", out="a", callbacks=[failing], **settings)
    assert failing.closed == 1
    noted = Noted()
    resumed = comity.resume("a", callbacks=[noted])
    assert noted.events[0].round == 2
    assert [event.round for event in noted.events[1:-1]] == [3]
    whole = comity.run("tiny-treasure", out="b", **settings)
    assert contents(resumed.path) == contents(whole.path)


def test_an_error_at_the_end_leaves_a_finished_run_whose_report_is_drawn_later():
    class Late(Noted):
        def on_end(self, event: comity.EndEvent) -> None:
            raise ZeroDivisionError("late")

    with pytest.raises(ZeroDivisionError, match="late"):
        comity.run("tiny-treasure", out="a", callbacks=[Late()], **SHORT)
    assert comity.Run.open("a").finished
    noted = Noted()
    comity.resume("a", callbacks=[noted])
    assert noted.events == []


def test_an_error_of_a_callback_ends_the_workers():
    path = start_comparison(TINY.name, algorithms=ENTRIES, seeds=1, out="c", **SHORT)
    with (
        pytest.raises(ZeroDivisionError, match="mine"),
        notifying([Failing()], None) as notify,
    ):
        run_plan(path, 2, notify)
    assert isinstance(run_plan(path), comity.Comparison)  # no worker is left in its directory


def test_every_callback_is_closed_even_if_another_fails_to():
    class Stuck(Noted):
        def close(self) -> None:
            raise OSError("stuck")

    first, last = Noted(), Noted()
    with pytest.raises(OSError, match="stuck"), notifying([first, Stuck(), last], None):
        pass
    assert (first.closed, last.closed) == (1, 1)


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UserError, match=r"callbacks\[0\] = .*given as on_round"):
        comity.run("tiny-treasure", callbacks=[print])  # type: ignore[list-item]
    with pytest.raises(UserError, match="must be a list"):
        comity.run("tiny-treasure", callbacks=Noted())  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_without_callbacks_no_event_is_made():
    with notifying([], None) as notify:
        assert notify is None
    execute(comity.Run.create(Path("r"), tiny(**SHORT, algorithm="fedavg")), notify=None)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"metrics": {"validated": 0.51249}}, "validated 0.512"),
        ({"metrics": {"validated": 0.5}, "models": "last"}, "validated (last) 0.5"),
        (
            {"kind": "search", "metrics": {"iteration": 2.0, "hypervolume": 12.5}},
            "iteration 2, hypervolume 12.5",
        ),
    ],
)
def test_a_round_in_a_few_words(fields, text):
    assert round_event(**fields).text == text
