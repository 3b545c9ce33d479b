"""Files as programs of all countries write them."""

from __future__ import annotations

import polars
import pytest

from comity.datasets.columns import read_columns
from comity.datasets.reading import Reading, read_file
from comity.errors import UserError


def read(tmp_path, content, **settings):
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_file(path, "data", Reading(**settings))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path, separator):
    text = separator.join(["a", "b, c"]).replace("b, c", '"b, c"') + "\n"
    text += separator.join(["1", '"2; 3"']) + "\n"
    columns, reading = read(tmp_path, text)
    assert columns == {"a": ["1"], "b, c": ["2; 3"]}
    assert reading.separator == separator


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("a,b\nMüller,1\n".encode(), "utf-8"),
        ("\ufeffa,b\nMüller,1\n".encode(), "utf-8"),
        ("a,b\nMüller,1\n".encode("cp1252"), "cp1252"),
        ("a,b\nMüller,1\n".encode("utf-16"), "utf-16"),
        ("a,b\nMüller,1\n".encode("latin-1") + b"\x81,2\n", "latin-1"),
    ],
)
def test_the_encoding_is_found(tmp_path, content, encoding):
    columns, reading = read(tmp_path, content)
    assert columns["a"][0] == "Müller"
    assert list(columns) == ["a", "b"]
    assert reading.encoding == encoding


def test_a_given_encoding_must_fit(tmp_path):
    with pytest.raises(UserError, match=r"line 2 is not text in utf-8; .*'latin-1'"):
        read(tmp_path, "a,b\nMüller,1\n".encode("latin-1"), encoding="utf-8")
    with pytest.raises(UserError, match="there is no encoding 'utf-9'"):
        read(tmp_path, "a,b\n1,2\n", encoding="utf-9")


@pytest.mark.parametrize(
    ("cells", "expected", "form"),
    [
        (["1,5", "-2,25", "n/a"], ["1.5", "-2.25", ""], (",", "")),
        (["1.024,50", "3,5", "12"], ["1024.50", "3.5", "12"], (",", ".")),
        (["1,024.50", "3.5", "12"], ["1024.50", "3.5", "12"], (".", ",")),
        (["1'024.50", "3.5", "12"], ["1024.50", "3.5", "12"], (".", "'")),
        (["1.5", "1e3", "7"], ["1.5", "1e3", "7"], (".", "")),
        (["a,b", "c", "d"], ["a,b", "c", "d"], (".", "")),
    ],
)
def test_the_form_of_numbers_is_found(tmp_path, cells, expected, form):
    rows = "".join(f"{cell};x\n" for cell in cells)
    columns, reading = read(tmp_path, f"a;b\n{rows}")
    assert columns["a"] == expected
    assert (reading.decimal, reading.thousands) == form


def test_numbers_that_can_be_read_in_two_ways_are_refused(tmp_path):
    text = "a;b\n1,024;x\n2,500;y\n"
    with pytest.raises(UserError, match=r"column 'a' .*'1,024', which can be read in two ways"):
        read(tmp_path, text)
    assert read(tmp_path, text, decimal=",")[0]["a"] == ["1.024", "2.500"]
    assert read(tmp_path, text, thousands=",")[0]["a"] == ["1024", "2500"]


def test_marks_that_contradict_each_other_are_refused(tmp_path):
    text = "a;b\n1.024,5;1.250\n2.000,5;2.125\n"
    with pytest.raises(UserError, match=r"column 'b' .*'1\.250', but other columns .*mark ','"):
        read(tmp_path, text)


def test_missing_values_can_be_added(tmp_path):
    columns, _ = read(tmp_path, "a,b\n-,x\nNULL,keine\n", missing_values=("-", "keine"))
    assert columns == {"a": ["", ""], "b": ["x", ""]}


def test_all_rows_of_another_length_are_listed(tmp_path):
    fault = "row 3 has 1 cells, row 4 has 3 cells, but the header has 2"
    with pytest.raises(UserError, match=fault):
        read(tmp_path, "a,b\n1,2\n3\n4,5,6\n")
    with pytest.raises(UserError, match=r"column 2 has no name.*2 columns are called 'a'"):
        read(tmp_path, "a,,a\n1,2,3\n")


def test_parquet_holds_the_same_as_csv(tmp_path):
    frame = polars.DataFrame(
        {"a": [1.5, None, 3.0], "b": ["x", "n/a", "y"], "c": [True, False, None]}
    )
    frame.write_parquet(tmp_path / "a.parquet")
    expected = {"a": ["1.5", "", "3.0"], "b": ["x", "", "y"], "c": ["True", "False", ""]}
    assert read_columns(tmp_path / "a.parquet", "data") == expected
    (tmp_path / "bad.parquet").write_text("a,b\n")
    with pytest.raises(UserError, match=r"data: cannot read .*bad\.parquet"):
        read_columns(tmp_path / "bad.parquet", "data")
    with pytest.raises(UserError, match=r"no file .*none\.parquet"):
        read_columns(tmp_path / "none.parquet", "data")
