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


def test_programs_are_made_once_a_phase_and_shape(monkeypatch):
    """What is compiled, not compiled: that takes seconds and is shown above."""
    made = []

    def noted(function, arguments):
        made.append(function)
        return function

    monkeypatch.setattr(compiling, "_compiled", noted)
    plain, wanted, _ = learner_of()
    learner, fleet, _ = learner_of(compile="yes")
    counts = []
    for round, rows in enumerate([[0, 1, 2], [0, 1, 2], [0, 2]], start=1):
        for own, models in ((plain, wanted), (learner, fleet)):
            trained(own, models, steps=3 * round, round=round, rows=np.array(rows))
        counts.append(len(made))
    assert counts == [1, 1, 2]
    for client in range(3):
        assert_row(fleet, client, {name: wanted[name][client] for name in wanted})


def test_batches_that_are_too_small_are_not_compiled(monkeypatch):
    monkeypatch.setattr(compiling, "_compiled", lambda *_: pytest.fail("compiled"))
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
