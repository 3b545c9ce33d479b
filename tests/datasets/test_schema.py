from __future__ import annotations

import numpy as np
import pytest

from comity.datasets.scales import federated_scales, scale_statistics
from comity.datasets.schema import Column, Schema
from comity.datasets.tables import declared_table
from comity.errors import UserError

SCHEMA = Schema(
    "loans",
    "paid",
    "yes",
    (
        Column("age", scale=(40.0, 10.0)),
        Column("work", ("state", "1", "other")),
        Column("sex", ("f", "m"), sensitive=True, feature=False),
    ),
    "no",
)


def columns(**cells: list[str]):
    rows = {"age": ["30", "55.5"], "work": ["1.0", "state"], "sex": ["m", "f"]}
    return {**rows, "paid": ["yes", "no"], **cells}


def test_cells_become_the_declared_inputs_in_the_declared_order():
    table = declared_table(SCHEMA, columns(), "a.csv")
    assert table.features == ("age", "work=state", "work=1", "work=other")
    assert table.inputs.tolist() == [[30.0, 0.0, 1.0, 0.0], [55.5, 1.0, 0.0, 0.0]]
    assert table.inputs.dtype == np.float32
    assert table.numeric.tolist() == [True, False, False, False]
    assert table.label.tolist() == [1, 0]
    assert table.sensitive["sex"].tolist() == [1, 0]
    assert table.attribute_values == {"sex": ("f", "m")}


def test_nothing_is_learned_from_the_rows():
    """A file with fewer values has the same inputs, and so has one without rows."""
    few = declared_table(SCHEMA, columns(work=["state", "state"], sex=["f", "f"]), "a.csv")
    none = declared_table(SCHEMA, {}, "nobody")
    assert few.inputs[:, 1:].tolist() == [[1.0, 0.0, 0.0]] * 2
    assert none.inputs.shape == (0, 4)
    assert few.features == none.features
    assert few.attribute_values == none.attribute_values == {"sex": ("f", "m")}


def test_unlisted_and_missing_categories_are_other_if_that_is_listed():
    table = declared_table(SCHEMA, columns(work=["circus", ""]), "a.csv")
    assert table.inputs[:, 1:].tolist() == [[0.0, 0.0, 1.0]] * 2
    assert table.notes == ("a.csv: 2 cells of work count as other",)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ({"sex": ["m", "fe"]}, r"^a.csv: row 3, column 'sex' is 'fe', which is not one of f, m\."),
        ({"sex": ["", "f"]}, r"row 2, column 'sex' is missing; it must be one of f, m"),
        (
            {"age": ["x", "y"]},
            r"row 2, column 'age' must be a number, got 'x'\. 2 rows have this fault\.",
        ),
        ({"age": ["30", ""]}, r"row 3, column 'age' is missing"),
        ({"age": ["30", "1e39"]}, r"row 3, column 'age' must be a number, got '1e39'"),
        (
            {"paid": ["yes", "YES"]},
            r"row 3, column 'paid' is 'YES', but the label is 'yes' or 'no'",
        ),
        ({"paid": ["", "no"]}, r"row 2, column 'paid' is missing"),
    ],
)
def test_faults_name_row_and_column(cells, text):
    with pytest.raises(UserError, match=text):
        declared_table(SCHEMA, columns(**cells), "a.csv")


@pytest.mark.parametrize("name", ["age", "work", "sex", "paid"])
def test_an_absent_column_is_named(name):
    given = columns()
    given[name.upper()] = given.pop(name)
    with pytest.raises(UserError, match=f"a.csv: column '{name}' is absent from the header"):
        declared_table(SCHEMA, given, "a.csv")


def test_an_undeclared_no_is_one_value():
    """Without a declared no, a file may have one value beside yes, not two."""
    schema = Schema("loans", "paid", "yes", SCHEMA.columns)
    assert declared_table(schema, columns(paid=["yes", "nope"]), "a.csv").label.tolist() == [1, 0]
    with pytest.raises(UserError, match=r"row 3, column 'paid' is 'Yes'.*'yes' or 'no'"):
        declared_table(schema, columns(paid=["no", "Yes"]), "a.csv")


def test_new_rows_need_the_inputs_only():
    new = {"work": ["circus"], "age": ["18"]}
    assert SCHEMA.encode(new).tolist() == [[18.0, 0.0, 0.0, 1.0]]
    with pytest.raises(UserError, match="new rows of loans: column 'work' is absent"):
        SCHEMA.encode({"age": ["18"]})


def test_scales_of_several_clients_are_those_of_their_rows_together():
    """Rows 1, 2, 3 and 6: the mean is 3, the spread √((4 + 1 + 0 + 9) / 3)."""
    first = scale_statistics(np.array([[1.0, 7.0], [2.0, 7.0]], dtype=np.float32))
    second = scale_statistics(np.array([[3.0, 7.0], [6.0, 7.0]], dtype=np.float32))
    assert first.tolist() == [[2.0, 2.0], [3.0, 14.0], [5.0, 98.0]]
    scales = federated_scales([first, second])
    assert scales[0].tolist() == [3.0, np.sqrt(14 / 3)]
    assert scales[1].tolist() == [7.0, 1e-6]  # of a constant column
    assert scale_statistics(np.zeros((5, 0), dtype=np.float32)).shape == (3, 0)
