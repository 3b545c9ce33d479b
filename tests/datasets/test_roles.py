"""Which columns are inputs, and what dates become."""

from __future__ import annotations

import numpy as np
import pytest

from comity.datasets.dates import days, found_format
from comity.datasets.roles import Roles, identifying
from comity.datasets.tables import make_table
from comity.errors import UserError

ROWS = 24


def columns(**changes):
    return {
        "id": [str(1000 + row) for row in range(ROWS)],
        "name": [f"person {row}" for row in range(ROWS)],
        "sex": ["fm"[row % 2] for row in range(ROWS)],
        "age": [str(20 + row * 7 % 30) for row in range(ROWS)],
        "income": [f"{row * 1.37:.2f}" for row in range(ROWS)],
        "since": [f"{row + 1:02}.03.2020" for row in range(ROWS)],
        "same": ["x"] * ROWS,
        "paid": ["yes" if row % 3 else "no" for row in range(ROWS)],
    } | changes


def inputs(roles, **changes):
    return make_table("loans", columns(**changes), roles)


def test_sensitive_columns_and_ids_are_no_inputs_unless_asked():
    table = inputs(Roles("paid", ["sex"]))
    assert table.features == ("age", "income", "since")
    assert table.notes == (
        "sex is sensitive and no input (sensitive_inputs = true changes that)",
        "id is no input: every row has another whole number; list it in features to use it",
        "name is no input: every row has another text; list it in features to use it",
        "same is no input: all its cells are 'x'",
        "since is taken as days since 1970, from dates like 31.12.2026",
    )
    asked = inputs(Roles("paid", ["sex"], sensitive_inputs=True, exclude=["income"]))
    assert asked.features == ("sex=f", "sex=m", "age", "since")
    listed = inputs(Roles("paid", ["sex"], features=["id", "sex"]))
    assert listed.features == ("id", "sex=f", "sex=m")


def test_an_excluded_column_must_exist():
    with pytest.raises(UserError, match=r"unknown column in loans 'incme'.*Did you mean 'income'"):
        inputs(Roles("paid", ["sex"], exclude=["incme"]))
    with pytest.raises(UserError, match=r"'incme'.*'gender'|'gender'.*'incme'"):
        inputs(Roles("paid", ["gender"], exclude=["incme"]))


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("nr", range(ROWS), True),  # counts up
        ("anything", range(500, 500 + ROWS), True),
        ("customer_id", [17 * (row * 7 % ROWS) for row in range(ROWS)], True),  # its name
        ("amount", [17 * (row * 7 % ROWS) for row in range(ROWS)], False),
        ("income", [row + 0.5 for row in range(ROWS)], False),
        ("id", [row // 2 for row in range(ROWS)], False),  # repeats
        ("text", [f"t{row}" for row in range(ROWS)], True),
        ("text", [f"t{row}" for row in range(10)], False),  # too few rows to tell
        ("opened", [f"2020-01-{row + 1:02}" for row in range(ROWS)], False),
    ],
)
def test_ids_number_or_name_the_rows(name, cells, expected):
    assert bool(identifying(name, [str(cell) for cell in cells])) is expected


def test_dates_become_days_of_the_schema_too():
    """1 March 2020 is day 18322: 50 years of 365 days, 12 leap days, 31 + 29 days."""
    assert days("01.03.2020", "%d.%m.%Y") == 50 * 365 + 12 + 31 + 29 == 18322
    assert days("1970-01-02 12:00", "%Y-%m-%d %H:%M") == 1.5
    table = inputs(Roles("paid", ["sex"], features=["since"]))
    assert table.inputs[:, 0].tolist() == [18322.0 + row for row in range(ROWS)]
    assert np.asarray(table.encode({"since": ["02.03.2020"]})).tolist() == [[18323.0]]
    with pytest.raises(UserError, match=r"row 2, column 'since' must be a date like 31\.12\.2026"):
        table.encode({"since": ["2020-03-02"]})


def test_a_wrong_date_is_refused_with_its_row():
    cells = columns()["since"]
    cells[4] = "31.02.2020"
    fault = r"row 6, column 'since' must be a date like 31\.12\.2026, got '31\.02\.2020'"
    with pytest.raises(UserError, match=fault):
        inputs(Roles("paid", ["sex"]), since=cells)


def test_day_and_month_must_be_told_apart():
    assert found_format(["03/04/2020", "25/04/2020"], "x") == "%d/%m/%Y"
    assert found_format(["03/04/2020", "03/25/2020"], "x") == "%m/%d/%Y"
    assert found_format(["red", "blue"], "x") is None
    with pytest.raises(
        UserError, match=r"x has dates such as '03/04/2020', in which day and month"
    ):
        found_format(["03/04/2020", "05/06/2020"], "x")
    cells = [f"{row % 12 + 1:02}/{row % 7 + 1:02}/2020" for row in range(ROWS)]
    roles = Roles("paid", ["sex"], features=["since"], dates={"since": "%m/%d/%Y"})
    assert inputs(roles, since=cells).inputs[1, 0] == days("02/02/2020", "%d/%m/%Y")
