"""Programs of steps: made once per phase and shape, and only where they are worthwhile."""

from __future__ import annotations

import numpy as np
import pytest

from comity.configuration import configure
from comity.learners.supervised import compiling
from tests.learners.supervised.helpers import (
    assert_row,
    learner_of,
    trained,
)
from tests.tiny import tiny


def test_programs_are_made_once_per_phase_and_shape(monkeypatch):
    """The compiler is replaced: compiling takes seconds and is shown in ``test_learner``."""
    programs = []

    def noted(function, arguments):
        programs.append(function)
        return function

    monkeypatch.setattr(compiling, "_compile", noted)
    plain, expected, _ = learner_of()
    learner, fleet, _ = learner_of(compile="yes")
    counts = []
    for round, rows in enumerate([[0, 1, 2], [0, 1, 2], [0, 2]], start=1):
        for each, models in ((plain, expected), (learner, fleet)):
            trained(each, models, steps=3 * round, round=round, rows=np.array(rows))
        counts.append(len(programs))
    assert counts == [1, 1, 2]
    for client in range(3):
        assert_row(fleet, client, {name: expected[name][client] for name in expected})


def test_batches_that_are_too_small_are_not_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "_compile", lambda *_: pytest.fail("compiled"))
    learner, fleet, _ = learner_of(compile="yes", batch_size=10_000)
    start = fleet.clone()
    trained(learner, fleet)
    assert fleet.distance(start).min() > 0


def test_whether_to_compile_is_decided_once_and_written_down():
    short = tiny(problem="tiny-people")
    assert short.learner_settings["compile"] == "no"
    long = configure(
        {"problem": "adult-gender-dp", "clients": 10, "supervised": {"total_steps": 20_000}}
    )
    assert long.learner_settings["compile"] == "yes"
    assert 'compile = "yes"' in long.to_toml()
    asked = tiny(problem="tiny-people", supervised={"compile": "yes"})
    assert asked.learner_settings["compile"] == "yes"
