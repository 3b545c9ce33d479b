"""Preferences that follow from the gaps in clients' own labels."""

from __future__ import annotations

import numpy as np
import pytest

from comity.configuration import configure
from comity.errors import UserError
from comity.problems import register
from comity.problems.disparity import label_gaps, largest_gap
from comity.problems.own_table import table_problem

NORTH = {("f", "x"): (2, 20), ("f", "y"): (2, 20), ("m", "x"): (18, 20), ("m", "y"): (18, 20)}
SOUTH = {("f", "x"): (2, 20), ("f", "y"): (18, 20), ("m", "x"): (2, 20), ("m", "y"): (18, 20)}
"""Yeses and people by sex and race: the north is unequal by sex, the south by race."""


def columns():
    rows = [
        (state, sex, race, str(number), "yes" if number < yes else "no")
        for state, cells in (("north", NORTH), ("south", SOUTH))
        for (sex, race), (yes, count) in cells.items()
        for number in range(count)
    ]
    names = ("state", "sex", "race", "age", "paid")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


@pytest.fixture
def posed():
    def made(**description):
        problem = table_problem(
            columns(), label="paid", sensitive=["sex", "race"], client="state", **description
        )
        return problem.partitioned(2, 1, "natural", "equal")

    return made


def test_gaps_are_those_of_the_training_labels(posed):
    problem = posed()
    gaps, samples = label_gaps(problem), problem.samples().columns
    for client, rows in enumerate(problem.client_rows()):
        for attribute in ("sex", "race"):
            values = samples[f"group:{attribute}"][rows.train].numpy()
            paid = samples["label"][rows.train].numpy()
            shares = [paid[values == value].mean() for value in (0, 1)]
            expected = abs(shares[0] - shares[1])
            assert gaps[attribute][client] == pytest.approx(expected, abs=1e-6)
    assert gaps["sex"][0] > 0.7 > 0.1 > gaps["race"][0]
    assert gaps["race"][1] > 0.7 > 0.1 > gaps["sex"][1]


def test_the_weight_goes_to_the_larger_gap(posed):
    assert largest_gap(posed(), "largest-gap:0.3").tolist() == [[0.7, 0.3, 0], [0.7, 0, 0.3]]
    assert largest_gap(posed(), "largest-gap").tolist() == [[0.5, 0.5, 0], [0.5, 0, 0.5]]
    both = largest_gap(posed(metrics=["dp", "eo"]), "largest-gap:0.4")
    np.testing.assert_allclose(both, [[0.6, 0.2, 0.2, 0, 0], [0.6, 0, 0, 0.2, 0.2]])


def test_a_configuration_holds_the_weights(posed, monkeypatch):
    monkeypatch.setattr("comity.problems.registry._REGISTRY", {})
    name = register(posed(name="two-states")).name
    values = {"problem": name, "clients": 2, "partition": "natural", "preferences": "largest-gap"}
    configuration = configure(values)
    assert configuration.preferences == [[0.5, 0.5, 0], [0.5, 0, 0.5]]
    assert configure(configuration.plain()).preferences == configuration.preferences


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"problem": "heart-disease", "preferences": "largest-gap"}, "needs a problem of accuracy"),
        (
            {"problem": "adult-gender-dp", "preferences": "largest-gap:1"},
            "needs a positive number below 1 after the colon",
        ),
        ({"problem": "adult-gender-dp", "preferences": "gap"}, r"largest-gap\[:W\]"),
    ],
)
def test_wrong_specifications_are_refused(values, said):
    with pytest.raises(UserError, match=said):
        configure(values)
