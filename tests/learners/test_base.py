"""The interface of learners: all of it, in every learner."""

from __future__ import annotations

import inspect

import pytest

from comity.learners import LEARNERS, Learner

MEMBERS = [
    name for name, member in vars(Learner).items() if name[0] != "_" and inspect.getdoc(member)
] + ["differentiable"]


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_the_whole_interface(name):
    """With the same arguments, and with documentation of its own."""
    learner, settings = LEARNERS[name]
    assert {"check", "train", "survey", "evaluate", "remarks", "state", "load"} <= set(MEMBERS)
    for member in MEMBERS:
        declared, own = getattr(Learner, member, None), getattr(learner, member)
        assert member == "differentiable" or inspect.getdoc(own)
        if callable(declared):
            assert list(inspect.signature(own).parameters) == list(
                inspect.signature(declared).parameters
            )
    assert list(inspect.signature(learner.__init__).parameters) == ["self", "context"]
    assert settings().decided(1, "cpu").local_steps == settings().local_steps
