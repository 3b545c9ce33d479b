"""Ranges on fronts: printed ones, and those of runs that a table of hypervolumes left behind."""

from __future__ import annotations

import json

import numpy as np
import pytest

import comity
from comity.errors import UserError
from comity.reproductions.ranges import TABLES, needs, plan, printed, problems_of

TINY = [
    *("--set", "supervised.local_steps=2", "--set", "rounds=2", "--set", "clients=3"),
    *("--rows", "fedpref,no-communication", "--workers", "1", "--out", "r", "--seeds", "2"),
]
ONLY = ["--only", "law-school-gender-eo"]


@pytest.mark.parametrize("table", TABLES)
def test_every_algorithm_has_printed_ranges(table):
    assert len(problems_of(table)) == len(needs(table).hours) == 5
    for problem in problems_of(table):
        figures = printed(table, problem)
        assert len(figures) == 5
        for ranges in figures.values():
            assert list(ranges) == ["accuracy", "fairness"]
            assert all(0.2 < low <= high <= 1 for low, high in ranges.values())


def test_what_is_printed_is_what_the_thesis_prints():
    assert printed("thesis-A.13", "adult-gender-eo")["fedprox"] == {
        "accuracy": [0.8, 0.801],
        "fairness": [0.837, 0.876],
    }
    assert printed("thesis-A.22", "law-school-race-dp")["no-communication"] == {
        "accuracy": [0.95, 0.951],
        "fairness": [0.979, 0.999],
    }


def test_ranges_of_heterogeneous_preferences_are_called_misprints():
    for table, other, metric in (("A.15", "A.13", "eo"), ("A.16", "A.14", "dp")):
        problem = f"adult-race-{metric}"
        assert printed(f"thesis-{table}", problem) == printed(f"thesis-{other}", problem)
        assert "misprint, do not compare" in TABLES[f"thesis-{table}"].note
        assert "misprint" not in TABLES[f"thesis-{other}"].note


def test_ranges_come_from_the_runs_of_hypervolumes(call):
    call("reproduce", "thesis-5.4", *ONLY, *TINY)
    results = sorted((call.home / "r").rglob("results.json"))
    before = [path.stat().st_mtime_ns for path in results]
    said = call("reproduce", "thesis-A.15", *ONLY, *TINY)
    assert [path.stat().st_mtime_ns for path in results] == before, "runs are used again"
    assert "0.917–0.933" in said
    assert "misprint" in said
    assert (call.home / "r" / "thesis-A.15.png").stat().st_size > 10_000
    table = json.loads((call.home / "r" / "thesis-A.15.json").read_text())
    assert [row["algorithm"] for row in table["rows"]] == ["fedpref+ft", "no-communication"]
    runs = comity.open(call.home / "r").runs
    compared = 0
    for row in table["rows"]:
        for column, field in (
            ("paper_protocol", "objectives_last"),
            ("our_defaults", "objectives"),
        ):
            points = [
                tuple(result.get(field, result["objectives"]).values())
                for run in runs[row["algorithm"], "dirichlet"]
                for result in run.results["per_client"]
            ]
            useful = [p for p in points if p[1] <= 0.999]
            best = [
                p
                for p in useful
                if not any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in useful)
            ]
            if not best:
                assert row[column] is None
                continue
            compared += 1
            ends = np.array([np.min(best, axis=0), np.max(best, axis=0)]).T
            assert list(row[column]) == ["accuracy", "fairness"]
            assert list(row[column].values()) == [pytest.approx(e, abs=1e-6) for e in ends.tolist()]
    assert compared, "nothing was compared"


def test_a_problem_of_the_other_metric_is_refused():
    with pytest.raises(UserError, match=r"problem of thesis-A\.18 'adult-gender-dp'"):
        plan("thesis-A.18", only="adult-gender-dp")  # thesis-A.17 has it
