from __future__ import annotations

import numpy as np
import pytest

from comity.errors import UserError
from comity.problems import find
from comity.problems.own_table import described, resolved, table_problem

pytestmark = pytest.mark.usefixtures("undrawn")


def test_what_comes_with_a_data_set_is_not_described_again():
    with pytest.raises(UserError, match=r"problem\.label means nothing for data = 'german-credit'"):
        described({"data": "german-credit", "label": "nonsense"})
    with pytest.raises(UserError, match="Did you mean the data set 'adult'"):
        resolved({"data": "adlut"})
    with pytest.raises(UserError, match="problem = 3: must be a name or a table"):
        find(3)  # type: ignore[arg-type]


def test_objectives_keep_the_order_of_the_attributes():
    """A preference's columns mean the objectives in this order."""
    values = columns() | {"weight": columns()["sex"][::-1], "area": columns()["sex"]}
    given = {"weight": {"column": "weight"}, "area": {"column": "area"}}
    problem = table_problem(values, label="paid", sensitive=given)
    names = ["accuracy", "fairness-weight", "fairness-area"]
    assert [objective.name for objective in problem.objectives] == names
    # a column called weight is not taken for the weight of a sample
    partitioned = problem.partitioned(2, 1, "stratified", "equal")
    assert np.isfinite(partitioned.trivial(range(2), 1, 1)).all()


def test_own_tables_have_the_defaults_of_fairness_problems():
    problem = table_problem(columns(), label="paid", sensitive=["sex"])
    assert problem.defaults["normalise"] == "units"
    assert problem.run_defaults == {"preferences": "interior"}


def columns(rows: int = 120):
    g = np.random.default_rng(5)
    return {
        "age": g.integers(18, 90, rows).tolist(),
        "sex": g.choice(["f", "m"], rows).tolist(),
        "paid": g.choice(["yes", "no"], rows).tolist(),
    }


class Frame:
    """As much of a data frame as is asked for."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        values = self._columns[name]
        return type("Series", (), {"to_list": lambda self: values})()


@pytest.mark.parametrize("wrap", [dict, Frame])
def test_a_problem_from_columns_or_a_data_frame(wrap, tmp_path):
    import comity

    problem = table_problem(wrap(columns()), name="loans", label="paid", sensitive=["sex"])
    run = comity.run(problem, clients=2, rounds=2, algorithm="fedavg", out=tmp_path / "run")
    assert run.results["problem"] == "loans"
    assert set(run.results["per_client"][0]["objectives"]) == {"accuracy", "fairness"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "problem.label is missing"),
        ({"label": "paid"}, "at least one column"),
        ({"label": "age", "sensitive": ["sex"]}, "label"),
        ({"label": "paid", "sensitive": ["gender"]}, "gender"),
        ({"label": "paid", "sensitive": ["sex"], "metrics": ["parity"]}, "metrics"),
        ({"label": "paid", "sensitive": ["sex"], "metrics": []}, "at least one of dp, eo"),
        ({"label": "paid", "sensitive": ["sex"], "slope": -1}, "slope"),
        ({"label": "paid", "sensitive": ["sex"], "hidden": [0]}, "hidden"),
        ({"label": "paid", "sensitive": ["sex", "sex"]}, "twice"),
        ({"label": "paid", "sensitive": ["sex"], "metrics": ["dp", "dp"]}, "twice"),
        ({"label": "paid", "sensitive": ["paid"]}, "is the label"),
        ({"label": "paid", "sensitive": ["sex"], "colour": 1}, "colour"),
    ],
)
def test_what_is_wrong_with_a_description_is_said(values, said):
    with pytest.raises(UserError, match=said):
        table_problem(columns(), **values)
