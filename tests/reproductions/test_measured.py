"""What has been measured: true entries only, and a list that says so."""

from __future__ import annotations

import json
from pathlib import Path

from comity.reproductions import catalogue, measured
from comity.reproductions.clusterings import SHARED

ROOT = Path(__file__).parents[2]


def test_entries_name_problems_of_their_tables_and_files_that_are_there():
    entries = [entry for found in measured().values() for entry in found]
    assert entries
    for entry in entries:
        assert entry.problem in catalogue()[entry.table].hours
        assert (ROOT / entry.file).is_file()
        assert entry.commit in (ROOT / "benchmarks" / "RESULTS.md").read_text()


def test_the_recorded_study_of_clusters_has_the_seeds_that_its_entry_names():
    (entry,) = measured()["thesis-4.3.5"]
    figures = json.loads((ROOT / entry.file).read_text())
    assert {row["preferences"] for row in figures["rows"]} == set(SHARED[entry.problem])
    assert {len(row["seeds"]) for row in figures["rows"]} == {entry.seeds}


def test_the_list_says_what_has_been_measured(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = call("reproduce", "--list")
    assert all(len(line) <= 80 for line in said.splitlines())
    line = next(line for line in said.splitlines() if line.strip().startswith("thesis-4.3.5"))
    assert line.split()[-1] == "1/5"
    assert "thesis-4.3.5-thresholds.json" in said
    tables = {t["name"]: t for t in json.loads(call("reproduce", "--list", "--json"))["tables"]}
    assert tables["thesis-A.12"]["measured"] == []
    (entry,) = tables["thesis-4.3.5"]["measured"]
    assert (entry["seeds"], entry["version"], entry["commit"]) == (3, "0.6.0", "284e575")
