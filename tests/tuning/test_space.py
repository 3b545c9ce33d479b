"""The space of a tuning: what a file may say, and what is refused."""

from __future__ import annotations

import tomllib

import pytest

import tests.tiny  # noqa: F401  (which registers its problems)
from comity.configuration import configure
from comity.errors import UserError
from comity.tuning.space import (
    Choices,
    Range,
    combinations,
    current,
    plain_space,
    read_space,
    settled,
)

COMMON = {"problem": "tiny-answers", "algorithm": "fedprox", "clients": 3, "rounds": 1}


def read(text):
    return read_space(tomllib.loads(text), COMMON, "space.toml")


def test_names_are_those_of_entries_and_of_set():
    space = read(
        """
        mu = [0.01, 1.0]
        supervised.learning_rate = { low = 1e-4, high = 1, log = true }
        supervised.batch_size = { low = 8, high = 16, step = 4 }
        rounds = { low = 2, high = 4 }
        keep = ["best", "last"]
        """
    )
    assert space == {
        "mu": Choices((0.01, 1.0)),
        "supervised.learning_rate": Range(1e-4, 1.0, log=True),
        "supervised.batch_size": Range(8, 16, step=4, integer=True),
        "rounds": Range(2, 4, integer=True),
        "keep": Choices(("best", "last")),
    }
    assert read_space(plain_space(space), COMMON, "again") == space
    assert list(read("fedprox.mu = [0.01]")) == ["mu"]


def test_points_are_all_that_steps_reach():
    assert Range(0.0, 1.0, step=0.3).points() == (0.0, 0.3, 0.6, 0.9)
    assert Range(2, 4, integer=True).points() == (2, 3, 4)
    assert Range(0.0, 1.0).points() is None
    assert combinations({"a": Choices((1, 2)), "b": Range(1, 2, integer=True)}) == [
        *({"a": 1, "b": 1}, {"a": 1, "b": 2}),
        *({"a": 2, "b": 1}, {"a": 2, "b": 2}),
    ]
    assert combinations({"a": Choices((1, 2)), "b": Range(0.0, 1.0)}) is None


def test_settings_of_a_trial_go_where_a_configuration_has_them():
    values = settled(
        {**COMMON, "supervised": {"local_steps": 3}},
        {"mu": 0.1, "supervised.learning_rate": 0.5, "rounds": 2},
    )
    assert values["fedprox"] == {"mu": 0.1}
    assert values["supervised"] == {"local_steps": 3, "learning_rate": 0.5}
    assert values["rounds"] == 2
    configuration = configure(values)
    names = ("mu", "supervised.learning_rate", "rounds")
    assert [current(configuration, name) for name in names] == [0.1, 0.5, 2]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "nothing to tune"),
        ("mu = 0.1", "give a list of values"),
        ("mu = []", "give a list of values"),
        ("mu = [0.1, 0.1]", "twice"),
        ("nu = [0.1]", "unknown setting of fedprox 'nu'"),
        ("fedpref.top_r = [0.1]", "unknown table of settings"),
        ("supervised.learningrate = [0.1]", "Did you mean 'learning_rate'"),
        ("seed = [1, 2]", "seed is not tuned"),
        ("clients = [3, 4]", "decides what is measured"),
        ("mu = { low = 1 }", "high = None: must be a number"),
        ("mu = { low = 1, high = 1 }", "must be below"),
        ("mu = { low = 0, high = 1, log = true }", "low above 0"),
        ("mu = { low = 1, high = 2, stride = 1 }", "stride"),
        ("mu = { low = 1, high = 2, step = 3 }", "step = 3"),
        ("keep = { low = 1, high = 2 }", "no number"),
        ("rounds = { low = 1.5, high = 2 }", "must be an integer"),
        ("supervised.learning_rate = { low = -1, high = 1 }", "greater than 0"),
        ('keep = ["best", "worst"]', "worst"),
        ("participation = [0.5, 2]", "less than or equal to 1"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(text, fault):
    with pytest.raises(UserError, match=fault):
        read(text)


def test_all_faults_are_refused_at_once():
    with pytest.raises(UserError, match=r"2 faults: \(1\) .*'nu'.* \(2\) .*'rate'"):
        read("nu = [1]\nsupervised.rate = [1]")
    with pytest.raises(UserError, match=r"3 faults: \(1\) fedprox.mu = -1"):
        read("mu = [-1, 1]\nsupervised.learning_rate = [0.0, 0.1, -0.1]")
