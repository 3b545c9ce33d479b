"""Proposals: repeatable, inside the space, and better than chance where trials tell something."""

from __future__ import annotations

import importlib.util

import pytest

from comity.errors import UserError
from comity.tuning.sampling import Outcome, Sampler, check_optuna
from comity.tuning.space import Choices, Range

SPACE = {
    "rate": Range(1e-4, 1.0, log=True),
    "steps": Range(5, 12, step=3, integer=True),
    "share": Range(0.0, 1.0, step=0.4),
    "kind": Choices(("a", "b", True)),
}


def proposals(kind="tpe", outcomes=(), batch=0, count=12):
    sampler = Sampler(kind, SPACE, ["higher"], outcomes, seed=3, batch=batch)
    return [sampler.propose() for _ in range(count)]


@pytest.mark.parametrize("kind", ["tpe", "random"])
def test_proposals_lie_in_the_space_and_have_few_digits(kind):
    for settings in proposals(kind):
        assert list(settings) == list(SPACE)
        assert 1e-4 <= settings["rate"] <= 1.0
        assert settings["rate"] == float(f"{settings['rate']:.4g}")
        assert settings["steps"] in (5, 8, 11)
        assert settings["share"] in (0.0, 0.4, 0.8)
        assert settings["kind"] in ("a", "b", True)


@pytest.mark.parametrize("kind", ["tpe", "random"])
def test_equal_seeds_and_batches_propose_the_same(kind):
    assert proposals(kind) == proposals(kind)
    assert proposals(kind) != proposals(kind, batch=1)


def test_tpe_looks_where_trials_were_good():
    outcomes = [Outcome(each, [-each["rate"]]) for each in proposals("random", count=40)]
    rates = [each["rate"] for each in proposals(outcomes=outcomes)]
    chance = [each["rate"] for each in proposals("random", batch=1)]
    assert sorted(rates)[6] < 0.1 * sorted(chance)[6]


def test_trials_without_a_value_or_outside_the_space_do_no_harm():
    lost = Outcome({"rate": 0.1, "steps": 5, "share": 0.0, "kind": "a"}, None)
    outside = Outcome({"rate": 2.0, "steps": 6, "share": 0.0, "kind": None}, [1.0])
    assert proposals(outcomes=[outside]) == proposals()
    assert len(proposals(outcomes=[lost, outside])) == 12


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'comity\[tune\]'"):
        check_optuna()
