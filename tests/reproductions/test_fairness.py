"""The printed tables of the fairness benchmark, with runs as short as can be."""

from __future__ import annotations

import json

import numpy as np
import pytest

import comity
from comity.api import reproduce
from comity.errors import UserError
from comity.reproductions.fairness import GRID, TABLES, printed, problems_of

TINY = [
    *("--set", "supervised.local_steps=2", "--set", "rounds=2", "--set", "clients=3"),
    *("--rows", "fedpref,no-communication", "--workers", "1", "--out", "r"),
]


def area(points):
    """The area of the steps below the points that are not perfectly fair."""
    total, height = 0.0, 0.0
    for accuracy, fairness in sorted(map(tuple, points), reverse=True):
        if height < fairness <= 0.999:
            total += accuracy * (fairness - height)
            height = fairness
    return total


def areas_by_rank(points):
    """The area below the points, and below those left when the best ones are removed, 3 times."""
    left = {tuple(point) for point in np.round(points, 6).tolist() if point[1] <= 0.999}
    areas = []
    for _ in range(4):
        best = {p for p in left if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in left)}
        if best or not areas:
            areas.append(area(best))
        left -= best
    return areas


def vectors(run, field):
    return np.array(
        [list(r.get(field, r["objectives"]).values()) for r in run.results["per_client"]]
    )


def runs_of(home, entry):
    made = comity.open(home / "r")
    return [run for (name, _), group in made.runs.items() if name == entry for run in group]


PROTOCOLS = {"paper_protocol": "objectives_last", "our_defaults": "objectives"}


def test_homogeneous_points_are_means_over_clients(call):
    """Two runs at each of ten weights that all clients share: twenty points."""
    arguments = ["reproduce", "thesis-5.2", "--only", "law-school-gender-eo", "--seeds", 2, *TINY]
    table = json.loads(call(*arguments, "--json"))
    assert (table["table"], table["problem"]) == ("thesis-5.2", "law-school-gender-eo")
    assert [row["algorithm"] for row in table["rows"]] == ["fedpref+ft", "no-communication"]
    assert [row["printed"]["mean"] for row in table["rows"]] == [0.836, 0.796]
    areas = []
    for row in table["rows"]:
        runs = runs_of(call.home, row["algorithm"])
        assert sorted(run.results["preferences"] for run in runs) == sorted([*GRID, *GRID])
        assert (row["points"], row["seeds"]) == (20, [1, 2])
        for run in runs:  # the thesis' rules, not our defaults
            assert run.configuration.learner_settings["normalise"] == "initial"
            assert run.configuration.partition == "naive"
        for protocol, field in PROTOCOLS.items():
            points = np.array([vectors(run, field).mean(axis=0) for run in runs])
            areas.append(area(points))
            assert row[protocol]["mean"] == pytest.approx(areas[-1])
            assert row["dropped"][protocol] == pytest.approx((points[:, 1] > 0.999).mean())
            assert row["ranks"][protocol] == pytest.approx(areas_by_rank(points))
        assert row["trivial"] == pytest.approx(19360 / 21791, abs=1e-3)  # who passes the bar
    assert max(areas) > 0.5, "nothing was compared"
    assert (call.home / "r" / "thesis-5.2-ranks.png").stat().st_size > 10_000


def test_heterogeneous_points_are_clients(call):
    """Two runs of three clients each: six points; printed first, then read again as JSON."""
    arguments = ["reproduce", "thesis-5.4", "--only", "credit-default-gender-eo", "--seeds", 2]
    said = call(*arguments, *TINY)
    for word in ("credit-default-gender-eo", "fedpref", "no-communication", "printed", "trivial"):
        assert word in said
    results = sorted((call.home / "r").rglob("results.json"))
    assert len(results) == 4
    before = [path.stat().st_mtime_ns for path in results]
    table = json.loads(call(*arguments, *TINY, "--json"))
    assert [path.stat().st_mtime_ns for path in results] == before, "finished runs are used again"
    figures = printed("thesis-5.4", "credit-default-gender-eo")
    areas = []
    for row in table["rows"]:
        assert row["printed"]["mean"] == figures[row["algorithm"]]
        assert f"{row['printed']['mean']:.4g}" in said
        runs = runs_of(call.home, row["algorithm"])
        assert (row["preferences"], row["points"]) == ("dirichlet", 6)
        for protocol, field in PROTOCOLS.items():
            points = np.concatenate([vectors(run, field) for run in runs])
            areas.append(area(points))
            assert row[protocol]["mean"] == pytest.approx(areas[-1])
            assert row["dropped"][protocol] == pytest.approx((points[:, 1] > 0.999).mean())
        trivial = [run.results["trivial"]["accuracy"] for run in runs]
        assert row["trivial"] == pytest.approx(np.mean(trivial))
    assert max(areas) > 0.1, "nothing was compared"
    assert json.loads((call.home / "r" / "thesis-5.4.json").read_text())["rows"] == table["rows"]


def test_what_is_printed_is_what_the_thesis_prints():
    assert printed("thesis-5.2", "adult-gender-eo") == {
        "fedprox": 0.701,
        "cfl": 0.687,
        "fedcmoo-pref": 0.676,
        "fedpref": 0.696,
        "no-communication": 0.678,
    }
    assert printed("thesis-A.20", "adult-gender-dp") != printed("thesis-A.20", "adult-gender-eo")


@pytest.mark.parametrize("table", TABLES)
def test_every_problem_of_a_table_has_a_printed_figure_an_algorithm(table):
    assert len(problems_of(table)) == 5 * len(TABLES[table].metrics)
    for problem in problems_of(table):
        figures = printed(table, problem)
        assert len(figures) == 5
        assert all(0 < value < 1 for value in figures.values())


def test_the_grid_of_shared_weights_leaves_out_pure_accuracy():
    assert len(GRID) == 10
    assert (GRID[0], GRID[3], GRID[9]) == ("same:0,1", "same:0.3,0.7", "same:0.9,0.1")


def test_a_directory_without_the_rows_is_refused(call):
    only = "law-school-gender-eo"
    call("reproduce", "thesis-5.4", "--only", only, "--seeds", 1, *TINY)
    with pytest.raises(UserError, match=r"holds no runs of cfl\. Choose another directory"):
        reproduce("thesis-5.4", only=only, rows=["cfl"], clients=3, out=call.home / "r")


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("thesis-5.4", {"only": "credit-default-gender-eo", "clients": 3}, "problem = law-school"),
        ("thesis-5.4", {"only": "law-school-gender-eo"}, "clients = 3, not 10"),
        ("thesis-5.2", {"only": "law-school-gender-eo", "clients": 3}, "preferences = "),
    ],
)
def test_runs_of_another_table_are_not_taken_for_this_one(call, table, values, said):
    call("reproduce", "thesis-5.4", "--only", "law-school-gender-eo", "--seeds", 1, *TINY)
    with pytest.raises(UserError, match=said):
        reproduce(table, out=call.home / "r", **values)
