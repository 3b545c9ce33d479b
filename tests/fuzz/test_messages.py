"""Bounded and seeded fuzzing of every kind of message, in both directions."""

from __future__ import annotations

import pytest

from tests.fuzz.messages import SCENARIOS, Siege, hello_faults

EXCHANGES = {
    "gradients": ("survey", "round", "finish", "end"),
    "ensemble": ("round", "collect", "finish", "end"),
}


def check(scenario: str, path, seed: int, each: int) -> None:
    siege = Siege(scenario, path, seed, each)
    siege.run()
    assert not siege.faults, "\n\n".join([f"{len(siege.faults)} in all:", *siege.faults[:5]])
    wanted = EXCHANGES.get(scenario, ("round", "finish", "end"))
    for direction in ("request", "answer"):
        assert {f"{direction} {exchange}" for exchange in wanted} <= siege.kinds.keys()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_changed_messages_are_refused_and_named_or_say_the_same(scenario, tmp_path):
    check(scenario, tmp_path, 1, 2)


def test_changed_greetings_and_scales_are_refused_or_make_sense(tmp_path):
    bad = hello_faults(tmp_path, 1, 15)
    assert not bad, "\n\n".join(bad)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_thousands_of_changed_messages(scenario, seed, tmp_path):
    check(scenario, tmp_path, seed, 20)


@pytest.mark.slow
def test_hundreds_of_changed_greetings_and_scales(tmp_path):
    bad = hello_faults(tmp_path, 2, 300)
    assert not bad, "\n\n".join(bad)
