"""Profiles and drafts of unknown tables: missing numbers, excluded columns."""

from __future__ import annotations

import pytest

from comity.datasets.profile import missing_markers
from comity.problems.drafts import draft

NUMBERS = [str(number) for number in range(9)]


@pytest.mark.parametrize(
    ("columns", "markers"),
    [
        ({"a": [*NUMBERS, "k. A."]}, {"k. A.": ["a"]}),  # a usual word
        ({"a": [*NUMBERS, "3+"]}, {}),  # in one column it may be a value
        ({"a": [*NUMBERS, "x"], "b": ["x", *NUMBERS]}, {"x": ["a", "b"]}),
        ({"a": [*NUMBERS, "x", "y"], "b": ["x", *NUMBERS, ""]}, {}),  # a has two of them
        ({"a": ["unknown"] * 9 + ["1"]}, {}),  # hardly a column of numbers
        ({"a": ["red", "green"], "b": NUMBERS}, {}),
    ],
)
def test_a_text_among_numbers_stands_for_a_missing_one(columns, markers):
    assert missing_markers(columns) == markers


def test_a_draft_takes_such_texts_as_missing_and_names_what_it_excludes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = ["sex;income;debt;remark;repaid"]
    for row in range(1200):
        debt = "keine Angabe" if row % 200 == 7 else f"{row % 13},5"
        sex, repaid = ("f", "m")[row % 2], ("no", "yes")[row % 3 == 0]
        rows.append(f"{sex};{row % 17},25;{debt};remark {row % 1100};{repaid}")
    (tmp_path / "loans.csv").write_text("\n".join(rows))
    drafted = draft(tmp_path / "loans.csv")
    assert not drafted.choices
    assert 'missing_values = ["keine Angabe"]' in drafted.toml
    assert 'missing = "category"' in drafted.toml
    kinds = {column.name: (column.kind, column.missing) for column in drafted.columns}
    assert kinds["debt"] == ("number", 6)
    assert "'keine Angabe' is taken as missing: it is all that is no number in debt" in (
        drafted.warnings
    )
    assert "remark is excluded: 1,100 different texts are too many for an input" in drafted.warnings
