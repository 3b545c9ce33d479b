from __future__ import annotations

import gzip
import math

import numpy as np
import pytest

from comity.datasets.columns import read_columns
from comity.datasets.roles import Roles
from comity.datasets.tables import make_table
from comity.errors import UserError

CSV = """\
age, job ,sex,site,hired
30,cook,F,north,yes
40,baker,M,south,no
50,cook,M,north,no
60,smith,F,north,yes
"""


def columns(**changes):
    return read_columns(
        {
            "age": ["30", "40", "50", "60"],
            "job": ["cook", "baker", "cook", "smith"],
            "sex": ["F", "M", "M", "F"],
            "hired": ["yes", "no", "no", "yes"],
        }
        | changes,
        "staff",
    )


def table(sensitive=("sex",), label="hired", changes=None, **settings):
    # most tests are about inputs, the sensitive column among them
    settings = {"sensitive_inputs": True, **settings}
    return make_table("staff", columns(**(changes or {})), Roles(label, sensitive, **settings))


class Frame:
    """The least that a data frame has."""

    def __init__(self, **cells):
        self.columns = list(cells)
        self.cells = cells

    def __getitem__(self, name):
        return Series(self.cells[name])


class Series:
    def __init__(self, cells):
        self.cells = cells

    def to_list(self):
        return list(self.cells)


def test_a_file_becomes_inputs_label_groups_and_sites(tmp_path):
    path = tmp_path / "staff.csv"
    path.write_text(CSV)
    read = read_columns(path, "staff")
    result = make_table(
        "staff", read, Roles("hired", ["sex"], client="site", sensitive_inputs=True)
    )
    assert result.features == ("age", "job=baker", "job=cook", "job=smith", "sex=F", "sex=M")
    assert result.inputs.dtype == np.float32
    assert result.inputs.tolist() == [
        [30, 0, 1, 0, 1, 0],
        [40, 1, 0, 0, 0, 1],
        [50, 0, 1, 0, 0, 1],
        [60, 0, 0, 1, 1, 0],
    ]
    assert result.numeric.tolist() == [True, False, False, False, False, False]
    assert result.label.tolist() == [1, 0, 0, 1]
    assert result.sensitive["sex"].tolist() == [0, 1, 1, 0]
    assert result.attribute_values == {"sex": ("F", "M")}
    assert result.silo_names == ("north", "south")
    assert result.silos.tolist() == [0, 1, 0, 0]
    assert result.notes == ()


def test_compressed_files_byte_order_marks_quotes_and_empty_last_lines_are_read(tmp_path):
    path = tmp_path / "staff.csv.gz"
    path.write_bytes(gzip.compress('\ufeffname,note\nA," x, y"\nB,?\n\n\n'.encode()))
    assert read_columns(str(path), "staff") == {"name": ["A", "B"], "note": ["x, y", ""]}


def test_mappings_and_frames_hold_the_same_as_a_file():
    cells = {"n": [1, 2.5, None], "t": [" a", "NA", math.nan], "b": [True, np.int64(3), "NaN"]}
    expected = {"n": ["1", "2.5", ""], "t": ["a", "", ""], "b": ["True", "3", ""]}
    assert read_columns(cells, "staff") == expected
    assert read_columns(Frame(**cells), "staff") == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3\n", r"row 3 has 1 cells, but the header has 2"),
        ("a,b\n1,2,3\n3,4\n", r"row 2 has 3 cells"),
        ("a,b\n1,2\n\n3,4\n", r"row 3 has 0 cells.*leave no row empty"),
        ('a,b\n1,"2\n3,4\n', r"at or before line 3: .*; check the quotes"),
        ("a,b,a\n1,2,3\n", r"2 columns are called 'a' in the header \(row 1\)"),
        ("a,,b\n1,2,3\n", r"column 2 has no name in the header \(row 1\)"),
        ("a b\n1 2\n", r"the one column 'a b'; cells must be separated by commas, semicolons"),
        ("", r"needs a row of column names and rows of data"),
        ("a,b\n", r"needs a row of column names and rows of data"),
        (b"a,\x00\x00,\x00", r"is not text; save it as CSV in UTF-8"),
    ],
)
def test_a_bad_file_is_refused_with_its_row_or_column(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message):
        read_columns(path, "staff")


def test_an_absent_or_damaged_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"staff: there is no file .*nowhere\.csv"):
        read_columns(tmp_path / "nowhere.csv", "staff")
    with pytest.raises(UserError, match="staff: cannot read"):
        read_columns(tmp_path, "staff")
    plain, short = tmp_path / "plain.csv.gz", tmp_path / "short.csv.gz"
    plain.write_text(CSV)
    short.write_bytes(gzip.compress(CSV.encode() * 100)[:-20])
    for path in (plain, short):
        with pytest.raises(UserError, match="staff: cannot read"):
            read_columns(path, "staff")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"a": [1, 2], "b": [1]}, r"same number of rows: a \(2\), b \(1\)"),
        ({"a": [], "b": []}, "no rows"),
        ({}, "no rows"),
        ({"1": [1], 1: [2]}, "2 columns are called '1'"),
        (7, "cannot read a table from int"),
    ],
)
def test_bad_columns_are_refused(source, message):
    with pytest.raises(UserError, match=f"staff: .*{message}"):
        read_columns(source, "staff")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 1, 0], [0, 1, 1, 0]),
        (["1.0", "0.0", "0.0", "1.0"], [1, 0, 0, 1]),
        ([True, False, False, True], [1, 0, 0, 1]),
        (["no", "Yes", "Yes", "no"], [0, 1, 1, 0]),
    ],
)
def test_obvious_labels_need_no_positive_value(values, expected):
    assert table(changes={"hired": values}).label.tolist() == expected


def test_the_positive_value_counts_as_one():
    assert table(positive="no").label.tolist() == [0, 1, 1, 0]
    coded = table(changes={"hired": ["1", "2", "2", "1"]}, positive=2.0)
    assert coded.label.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        (list("abca"), {}, r"exactly two values, found 3: 'a' \(row 2\), 'b' \(row 3\), 'c' \(row"),
        (list("aaaa"), {}, r"exactly two values, found 1: 'a' \(row 2\)"),
        (list("abba"), {}, r"'hired' is 'a' or 'b'; say which counts as 1, e.g. positive = 'b'"),
        (["good", "bad"] * 2, {"positive": "goood"}, r"'goood'\. Did you mean 'good'\?"),
    ],
)
def test_an_unclear_label_is_refused(values, settings, message):
    with pytest.raises(UserError, match=message):
        table(changes={"hired": values}, **settings)


def test_groups_are_formed_of_values_rules_and_the_rest():
    result = table(
        {
            "work": {"column": "job", "groups": {"food": ["cook", "baker"], "other": "*"}},
            "young": {"column": "age", "groups": {"yes": "< 40", "no": ">= 40"}},
            "old": {"column": "age", "groups": {"no": "<=50", "yes": ">50"}},
            "middle": {"column": "age", "groups": {"ends": "*", "middle": "40..50"}},
            "coded": {"column": "age", "groups": {"a": [30, 60.0], "b": ["40", "50"]}},
            "sex": {"column": "sex"},
        }
    )
    assert {name: codes.tolist() for name, codes in result.sensitive.items()} == {
        "work": [0, 0, 0, 1],
        "young": [0, 1, 1, 1],
        "old": [0, 0, 0, 1],
        "middle": [0, 1, 1, 0],
        "coded": [0, 1, 1, 0],
        "sex": [0, 1, 1, 0],
    }
    assert result.attribute_values["middle"] == ("ends", "middle")
    assert result.features[0] == "age"
    assert "sex=F" in result.features


@pytest.mark.parametrize(
    ("sensitive", "message"),
    [
        ([], "at least one column"),
        ("sex", "at least one column"),
        (["sexx"], r"unknown column in staff 'sexx'\. Did you mean 'sex'\?"),
        ({"sex": "sex"}, "'sex' must say its column"),
        ({"sex": {"column": "sex", "group": {}}}, "'group'. Did you mean 'groups'"),
        ({"job": {"column": "job", "groups": {"a": ["cook"]}}}, "at least two groups"),
        (
            {"job": {"column": "job", "groups": {"a": ["cook"], "b": ["smith"]}}},
            r"'baker' \(row 3, column 'job'\) is in no group",
        ),
        (
            {"age": {"column": "age", "groups": {"a": "<= 40", "b": ">= 40"}}},
            r"'40' \(row 3, column 'age'\) is in a and in b",
        ),
        (
            {"job": {"column": "job", "groups": {"a": "*", "b": "*"}}},
            r"'baker' \(row 3, column 'job'\) is in a and in b",
        ),
        (
            {"job": {"column": "job", "groups": {"a": ["cok"], "b": "*"}}},
            r"unknown value of column 'job' in group 'a' 'cok'\. Did you mean 'cook'\?",
        ),
        (
            {"age": {"column": "age", "groups": {"a": "> 99", "b": "*"}}},
            r"no row is in group 'a' \(> 99\)",
        ),
        ({"age": {"column": "age", "groups": {"a": "old", "b": "*"}}}, "'old' is no rule"),
        ({"age": {"column": "age", "groups": {"a": "< x", "b": "*"}}}, "'< x' is no rule"),
        (
            {"job": {"column": "job", "groups": {"a": "< 3", "b": "*"}}},
            "needs numbers, but a value is 'baker'",
        ),
    ],
)
def test_a_bad_sensitive_attribute_is_refused(sensitive, message):
    with pytest.raises(UserError, match=message):
        table(sensitive)


def test_one_group_or_very_many_are_refused():
    with pytest.raises(UserError, match=r"'sex' has 1 different values, 'F'; .* leave it out"):
        table(changes={"sex": ["F"] * 4})
    many = {
        "age": range(12),
        "job": ["x"] * 12,
        "sex": ["F", "M"] * 6,
        "hired": ["no", "yes"] * 6,
    }
    with pytest.raises(UserError, match=r"'age' has 12 different values; .* form groups"):
        table(["age"], changes=many)


def test_numbers_that_are_names_are_sorted_by_size():
    result = table(["age"], changes={"age": [10, 9, 100, 9]}, client="age")
    assert result.attribute_values["age"] == result.silo_names == ("9", "10", "100")
    assert result.silos.tolist() == [1, 0, 2, 0]


def test_features_can_be_chosen():
    assert table(features=["job"]).features == ("job=baker", "job=cook", "job=smith")
    for features, message in (
        (["aeg"], r"unknown column in staff 'aeg'\. Did you mean 'age'\?"),
        (["age", "hired"], "the label 'hired' among them"),
        ([], "got none"),
    ):
        with pytest.raises(UserError, match=message):
            table(features=features)
    with pytest.raises(UserError, match="unknown column in staff 'hire'"):
        table(label="hire")
    with pytest.raises(UserError, match="unknown column in staff 'ward'"):
        table(client="ward")


HOLES = {"age": [30, None, 50, 70], "job": ["cook", "?", "", "smith"]}


def test_missing_cells_are_refused_unless_told_otherwise():
    with pytest.raises(UserError, match=r"row 3, column 'age' is missing, the first of 3 missing"):
        table(changes=HOLES)
    assert table(changes=HOLES, features=["sex"]).notes == ()
    with pytest.raises(UserError, match="'ignore'"):
        table(changes=HOLES, missing="ignore")


def test_missing_cells_can_be_a_category_or_the_median():
    result = table(changes=HOLES, features=["age", "job"], missing="category")
    assert result.features == ("age", "age missing", "job=missing", "job=cook", "job=smith")
    assert result.inputs.tolist() == [
        [30, 0, 0, 1, 0],
        [50, 1, 1, 0, 0],
        [50, 0, 1, 0, 0],
        [70, 0, 0, 0, 1],
    ]
    assert result.numeric.tolist() == [True, False, False, False, False]
    assert "3 missing values" in result.notes[0]
    assert "age (1), job (2)" in result.notes[0]


def test_a_column_without_any_value_is_one_category():
    result = table(changes={"age": [None] * 4}, features=["age"], missing="category")
    assert (result.features, result.numeric.tolist()) == (("age=missing",), [False])


def test_rows_with_missing_cells_can_be_dropped():
    changes = HOLES | {"hired": ["yes", "", "", "no"], "sex": ["M", "M", "", "F"]}
    result = table(changes=changes, missing="drop")
    assert result.inputs[:, 0].tolist() == [30, 70]
    assert result.label.tolist() == [1, 0]
    assert result.sensitive["sex"].tolist() == [1, 0]
    assert result.notes[0].startswith("2 rows with missing values were dropped")
    with pytest.raises(UserError, match="every row has a missing cell"):
        table(changes={"age": [None] * 4}, features=["age"], missing="drop")


def test_rows_keep_their_numbers_when_others_are_dropped():
    changes = {"age": [None, 40, 50, 60], "hired": ["yes", "no", "maybe", "yes"]}
    with pytest.raises(UserError, match=r"'maybe' \(row 4\), 'no' \(row 3\), 'yes' \(row 5\)"):
        table(changes=changes, missing="drop")


@pytest.mark.parametrize("column", ["hired", "sex", "site"])
def test_label_groups_and_client_must_be_known(column):
    changes = {"site": ["n", "s", "n", "s"], column: ["no", "", "yes", "yes"]}
    with pytest.raises(UserError, match=rf"row 3, column '{column}' is missing.*must be known"):
        table(changes=changes, client="site", missing="category")


@pytest.mark.parametrize("odd", ["4o", "inf", "1e99", "4_0"])
def test_a_column_that_is_not_all_numbers_is_categories_and_says_so(odd):
    result = table(changes={"age": ["30", odd, "50", "60"]}, features=["age"])
    assert set(result.features) == {f"age={value}" for value in ("30", odd, "50", "60")}
    assert not result.numeric.any()
    assert f"because of '{odd}' (row 3)" in result.notes[0]
    assert table().notes == ()


def test_too_many_categories_are_refused():
    rows = 1002
    changes = {
        "age": [*range(rows - 1), "x1"],
        "job": ["x"] * rows,
        "sex": ["F", "M"] * (rows // 2),
        "hired": ["no", "yes"] * (rows // 2),
    }
    with pytest.raises(
        UserError, match=r"'age' has 1,002 different values .*\('x1' in row 1003\); correct it"
    ):
        table(changes=changes)


NEW = {"age": ["41", "20.5"], "job": ["smith", "cook"], "sex": ["M", "F"]}


def test_new_rows_get_the_inputs_of_the_tables_own():
    old = table()
    assert old.features == ("age", "job=baker", "job=cook", "job=smith", "sex=F", "sex=M")
    found = old.encode(read_columns(NEW | {"hired": ["?", "?"], "hobby": ["x", "y"]}, "new"))
    assert found.dtype == np.float32
    assert found.tolist() == [[41, 0, 0, 1, 0, 1], [20.5, 0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(old.encode(columns()), old.inputs)


def test_new_rows_may_lack_what_rows_lacked_when_learning():
    old = table(changes=HOLES, features=["age", "job"], missing="category")
    new = {"age": ["", "", "1"], "job": ["smith", "", "cook"]}
    # the table's median, whatever the new rows' own is
    assert old.encode(new).tolist() == [[50, 1, 0, 0, 1], [50, 1, 1, 0, 0], [1, 0, 0, 1, 0]]
    np.testing.assert_array_equal(old.encode(columns(**HOLES)), old.inputs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"age": ["41", "old"]},
            r"new rows of staff: row 3, column 'age' must be a number, .*'old'",
        ),
        ({"age": ["41", "1e99"]}, r"row 3, column 'age' must be a number, got '1e99'"),
        (
            {"age": ["", "41"]},
            r"row 2, column 'age' is missing, but no row .*; fill it in or leave",
        ),
        ({"job": ["cook", ""]}, r"row 3, column 'job' is missing, but no row"),
        (
            {"job": ["cook", "smit"]},
            r"new rows of staff: row 3, column 'job' is 'smit', which is not one of baker, "
            r"cook, smith\. Did you mean 'smith'\?",
        ),
    ],
)
@pytest.mark.parametrize("missing", ["refuse", "drop", "category"])
def test_new_rows_that_cannot_be_encoded_are_refused(changes, message, missing):
    with pytest.raises(UserError, match=message):
        table(missing=missing).encode(NEW | changes)


def test_rows_that_were_dropped_are_no_pattern_for_new_ones():
    old = table(changes={"age": [30, 40, 50, None]}, features=["age", "job"], missing="drop")
    assert old.features == ("age", "job=baker", "job=cook")
    with pytest.raises(UserError, match=r"row 3, column 'age' is missing"):
        old.encode({"age": ["1", ""], "job": ["cook", "cook"]})


def test_a_missing_category_is_not_offered_as_a_value():
    old = table(changes=HOLES, features=["job"], missing="category")
    with pytest.raises(UserError, match=r"'baker', which is not one of cook, smith\."):
        old.encode({"job": ["baker"]})


def test_all_columns_that_new_rows_lack_are_listed():
    with pytest.raises(
        UserError,
        match=r"new rows of staff: 2 faults: \(1\) column 'age' .* \(2\) column 'sex' is absent",
    ):
        table().encode({"job": ["cook"]})
    with pytest.raises(
        UserError, match=r"new rows of staff: column 'age' is absent from the header"
    ):
        table(features=["age"]).encode({"job": ["cook"]})


def test_numbers_that_are_codes_become_categories():
    codes = {"job": ["10", "9", "10", "9"]}
    plain = table(changes=codes, features=["job"])
    assert (plain.features, plain.numeric.tolist()) == (("job",), [True])
    coded = table(changes=codes, features=["job"], categories=["job"])
    assert (coded.features, coded.numeric.tolist()) == (("job=9", "job=10"), [False, False])
    assert coded.inputs.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    with pytest.raises(UserError, match="unknown column in staff 'work'"):
        table(categories=["work"])
    many = {name: cells * 300 for name, cells in columns().items()}
    many["age"] = [str(number) for number in range(1200)]
    with pytest.raises(UserError, match="1,200 different values, too many for categories"):
        make_table("staff", many, Roles("hired", ["sex"], features=["age"], categories=["age"]))


def test_large_clients_are_cut_to_the_same_rows_in_every_run():
    sites = {"site": ["north"] * 30 + ["south"] * 5}
    cells = {name: (values * 9)[:35] for name, values in columns().items()} | sites
    cells["age"] = [str(number) for number in range(35)]
    roles = Roles("hired", ["sex"], client="site", features=["age"], rows_per_client=10)
    first = make_table("staff", cells, roles)
    assert np.bincount(first.silos).tolist() == [10, 5]
    ages = first.inputs[:, 0]
    assert (np.diff(ages) > 0).all(), "rows keep their order"
    assert ages[-5:].tolist() == [30, 31, 32, 33, 34]
    assert ages[:10].tolist() != list(range(10)), "rows are drawn"
    assert make_table("staff", cells, roles).inputs.tolist() == first.inputs.tolist()
    assert first.notes[0] == "15 of 35 rows were drawn, at most 10 per site"
    all_rows = Roles("hired", ["sex"], client="site", features=["age"], rows_per_client=30)
    assert len(make_table("staff", cells, all_rows).label) == 35
    with pytest.raises(UserError, match="rows_per_client = 10 needs the column"):
        make_table("staff", cells, Roles("hired", ["sex"], features=["age"], rows_per_client=10))
