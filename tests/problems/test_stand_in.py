"""Stand-in rows fit the schema that they stand in for."""

from __future__ import annotations

from pathlib import Path

import pytest

from comity.configuration import read_toml
from comity.errors import UserError
from comity.problems import check_rows
from comity.problems.stand_in import write_stand_in

BANKS = Path(__file__).parents[2] / "examples" / "banks" / "federation.toml"
SCHEMAS = {
    "a table": read_toml(BANKS)["problem"],
    "pictures": {"kind": "pictures", "classes": ["cat", "dog"], "shape": [3, 8, 8]},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_stand_in_rows_fit_the_schema(name, tmp_path):
    path = write_stand_in(SCHEMAS[name], tmp_path, "bank-a", 200)
    report = check_rows(SCHEMAS[name], path)
    assert report.rows == 200
    assert not report.findings
    again = write_stand_in(SCHEMAS[name], tmp_path, "bank-b", 200)
    assert again.read_bytes() != path.read_bytes()  # each site has rows of its own


def test_other_problems_have_no_stand_in(tmp_path):
    table = {"data": "adult", "sensitive": ["gender"]}
    with pytest.raises(UserError, match="no stand-in"):
        write_stand_in(table, tmp_path, "bank-a", 10)
