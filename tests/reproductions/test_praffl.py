"""The tables of PraFFL, with runs as short as can be."""

from __future__ import annotations

import json

import numpy as np
import pytest

import comity
from comity.algorithms import make
from comity.api import reproduce
from comity.core.pareto import front
from comity.datasets.synthetic import reference_hypervolume
from comity.errors import UserError
from comity.report.figures import reproduction_figure
from comity.report.tables import reproduction_table
from comity.reproductions import TABLES as ALL
from comity.reproductions.praffl import (
    ALGORITHMS,
    DATA,
    LEVELS,
    PUBLIC,
    SPLITS,
    TABLES,
    plan,
    printed,
)

TINY = {"rounds": 2, "supervised": {"local_epochs": 1}, "praffl": {"sampled": 4, "tested": 11}}
ROWS = ["praffl", "agnostic-fair-pooled"]


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    """No pictures of the runs, which are tested elsewhere; only those of the table."""
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    monkeypatch.setattr("comity.report.write_comparison_report", lambda *about: None)


def test_table_2_sets_what_clients_reach_beside_what_is_printed(tmp_path):
    only, out = "praffl-synthetic", tmp_path / "r"
    made = reproduce("praffl-2", only=only, seeds=2, rows=ROWS, out=out, **TINY)
    assert json.loads((out / "praffl-2.json").read_text()) == made.results
    assert (out / "praffl-2.png").stat().st_size > 10_000
    praffl, pooled = made.results["rows"]
    assert (praffl["printed"]["mean"], pooled["printed"]["mean"]) == (0.763, 0.53)
    assert [row["centralised"] for row in made.results["rows"]] == [False, True]
    assert praffl["reference"] == reference_hypervolume()
    runs = comity.open(out / only).runs["praffl", "dirichlet"]
    assert [run.configuration.seed for run in runs] == praffl["seeds"] == [1, 2]
    reached = [run.results["spanned"]["hypervolume"] for run in runs]
    assert praffl["ours"]["mean"] == pytest.approx(np.mean(reached))
    assert praffl["ours"]["std"] == pytest.approx(np.std(reached))
    spent = [sum(run.spent.values()) for run in runs]
    times = made.results["seconds"]
    assert times[0]["ours"]["mean"] == pytest.approx(np.mean(spent))
    assert 0 < times[0]["ours"]["mean"] < np.mean([run.seconds for run in runs])
    assert [time["printed"] for time in times] == pytest.approx([590.4, 64.8]), "hours in print"
    heading = [str(column.header) for column in reproduction_table(made.results).columns]
    assert heading[-1] == "seconds (ours, printed)"
    assert "seconds" not in runs[0].results
    trivial = [run.results["trivial"]["own_hypervolume"] for run in runs]
    assert praffl["trivial"] == pytest.approx(np.mean(trivial))
    results = sorted(out.rglob("results.json"))
    before = [path.stat().st_mtime_ns for path in results]
    again = reproduce("praffl-2", only=only, seeds=2, rows=ROWS, out=out, **TINY)
    assert [path.stat().st_mtime_ns for path in results] == before, "finished runs are used again"
    assert again.results == made.results
    with pytest.raises(UserError, match=r"holds no runs of fedfb\. Choose another directory"):
        reproduce("praffl-2", only=only, rows=["fedfb"], out=out, **TINY)
    with pytest.raises(UserError, match="rounds = 2, not 3"):
        reproduce("praffl-2", only=only, rows=ROWS, out=out, **{**TINY, "rounds": 3})


def test_the_public_codes_reading_changes_settings_of_its_rows(tmp_path):
    values = {"only": "praffl-synthetic", "seeds": 1, "rows": ["lft-fedavg", "fedfb"], **TINY}
    del values["praffl"]
    made = reproduce("praffl-2", reading="public", out=tmp_path / "r", **values)
    assert made.results["reading"] == "public"
    assert "public code" in str(reproduction_table(made.results).title)
    runs = comity.open(tmp_path / "r" / "praffl-synthetic").runs
    for (entry, _), (run,) in runs.items():
        assert PUBLIC[entry].items() <= run.configuration.algorithm_settings.items()
    with pytest.raises(UserError, match="Choose another directory"):
        reproduce("praffl-2", out=tmp_path / "r", **values)
    with pytest.raises(UserError, match="unknown reading 'bugs'"):
        plan("praffl-2", reading="bugs")  # type: ignore[arg-type]
    for name, settings in PUBLIC.items():
        assert settings.items() <= make(name, settings).model_dump().items()
        assert not settings.items() & make(name, {}).model_dump().items(), "never the default"


def test_table_3_varies_the_number_of_clients(tmp_path):
    made = reproduce("praffl-3", seeds=1, rows=["praffl"], out=tmp_path / "r", **TINY)
    rows = made.results["rows"]
    assert [row["clients"] for row in rows] == [3, 10, 20]
    assert [row["printed"]["mean"] for row in rows] == [0.763, 0.798, 0.761]
    for row in rows:
        (run,) = comity.open(tmp_path / "r" / f"clients-{row['clients']}").runs[
            "praffl", "dirichlet"
        ]
        assert len(run.results["per_client"]) == row["clients"]
        assert row["ours"]["mean"] == run.results["metrics"]["own_hypervolume"]
    (axes,) = reproduction_figure(made.results).axes
    assert axes.get_xlabel() == "number of clients"
    assert (tmp_path / "r" / "praffl-3.png").is_file()
    (paper,) = [line for line in axes.lines if line.get_gid() == "printed"]
    np.testing.assert_allclose(paper.get_data(), [[3, 10, 20], [0.763, 0.798, 0.761]])
    (ours,) = axes.containers
    np.testing.assert_allclose(ours[0].get_ydata(orig=False), [row["ours"]["mean"] for row in rows])


def test_the_split_between_the_phases_is_varied(tmp_path):
    values = {"only": "praffl-synthetic", "rows": list(SPLITS)[::4], "seeds": 1}
    made = reproduce("praffl-7", out=tmp_path / "r", **values, **TINY)
    assert [row["split"] for row in made.results["rows"]] == [0.1, 0.9]
    assert {row["printed"]["mean"] for row in made.results["rows"]} == {None}
    runs = comity.open(tmp_path / "r" / "splits-praffl-synthetic").runs
    for row in made.results["rows"]:
        (run,) = runs[row["algorithm"], "dirichlet"]
        assert run.configuration.algorithm_settings["split"] == row["split"]
        assert run.configuration.algorithm_settings["sampled"] == 4
        nearest = [np.hypot(*(1 - vectors).T).min() for vectors in run.spans.vectors]
        assert row["measures"]["distance"]["mean"] == pytest.approx(np.mean(nearest))
        assert row["measures"]["width"]["mean"] >= 0
    assert (tmp_path / "r" / "praffl-7.png").stat().st_size > 10_000
    assert [*plan("praffl-7").plans] == [f"splits-{problem}" for problem in DATA]


def test_runs_of_figure_6_serve_for_figures_8_and_10_and_for_convergence(tmp_path):
    """The same directory: what is finished is used again."""
    out, head = tmp_path / "r", {"only": "praffl-synthetic", "seeds": 1, **TINY, "rounds": 4}
    made = reproduce("praffl-6", rows=["praffl", "fedfb"], out=out, **head)
    runs = comity.open(out / "praffl-synthetic").runs
    (single,), (spanning,) = runs["fedfb", "dirichlet"], runs["praffl", "dirichlet"]
    contested, beaten = ([row["each"][0][c] for c in range(3)] for row in made.results["rows"])
    for client in range(3):
        point, points = single.vectors[client], spanning.spans.vectors[client]
        dominates = (points >= point).all(axis=1) & (points > point).any(axis=1)
        assert beaten[client] == {
            "front": 1,
            "undominated": 1 - any(dominates),
            "share": 1 - any(dominates),
        }
        own = front(points)
        left = [not ((point >= one).all() and (point > one).any()) for one in own]
        assert contested[client]["front"] == len(own)
        assert contested[client]["undominated"] == sum(left)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("results.json")}
    for table in ("praffl-8", "praffl-10", "praffl-5.8"):
        (row,) = reproduce(table, out=out, **head).results["rows"]
        assert (out / f"{table}.png").stat().st_size > 10_000
        assert row["algorithm"] == "praffl"
    assert {path: path.stat().st_mtime_ns for path in out.rglob("results.json")} == before
    noted = [line["validation_hypervolume"] for line in spanning.history[:4]]
    assert row["rounds"] == [noted]
    assert row["measures"]["last_round"]["mean"] == noted[-1]


def test_figure_9_has_three_levels_of_unlikeness(tmp_path):
    made = reproduce("praffl-9", seeds=1, rows=["praffl"], out=tmp_path / "r", **TINY)
    assert [row["partition"] for row in made.results["rows"]] == ["even", "paper", "strong"]
    for row in made.results["rows"]:
        (run,) = comity.open(tmp_path / "r" / row["partition"]).runs["praffl", "dirichlet"]
        assert run.results["partition"] == row["partition"]
        assert row["measures"]["share"]["mean"] == 1, "there is no other algorithm"
    first = reproduction_table(made.results).columns[0]
    assert [str(cell) for cell in first.cells] == [*LEVELS]


def row(problem, algorithm, ours, paper):
    return {
        "problem": problem,
        "clients": 3,
        "algorithm": algorithm,
        "centralised": False,
        "printed": {"mean": paper, "std": None},
        "ours": {"mean": ours, "std": 0.01},
        "trivial": 0.6,
        "reference": 0.854 if problem == "praffl-synthetic" else None,
    }


def test_problems_stand_side_by_side():
    rows = [row(p, a, 0.7, 0.8) for p in ("praffl-synthetic", "praffl-bank") for a in "ab"]
    head = {"table": "praffl-2", "across": None, "reference_point": [0.0, 0.0]}
    figure = reproduction_figure({**head, "rows": rows})
    assert [axes.get_title() for axes in figure.axes] == ["praffl-synthetic", "praffl-bank"]
    assert figure.get_supxlabel() == "hypervolume per client, from (0, 0)"
    for axes in figure.axes:
        (paper,) = [line for line in axes.lines if line.get_gid() == "printed"]
        np.testing.assert_allclose(paper.get_xdata(), [0.8, 0.8])
    # only of the synthetic people is it known what is possible
    known = [[line.get_gid() for line in axes.lines].count("possible") for axes in figure.axes]
    assert known == [1, 0]


@pytest.mark.parametrize("problem", DATA)
def test_every_problem_has_a_printed_figure_an_algorithm(problem):
    figures = printed("praffl-2", problem, 3)
    assert figures.keys() == ALGORITHMS.keys()
    assert all(0 < value < 1 for value in figures.values())
    assert max(figures, key=figures.__getitem__) == "praffl"


def test_what_is_printed_is_what_the_paper_prints():
    assert printed("praffl-2", "praffl-adult", 2)["fairfed"] == 0.269
    assert printed("praffl-3", "praffl-synthetic", 10)["lft-fedavg"] == 0.641
    assert printed("praffl-7", "praffl-synthetic", 3) == {}


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("praffl-2", {"only": "praffl-mnist"}, "praffl-mnist"),
        ("praffl-3", {"only": "praffl-bank"}, "praffl-bank"),
        ("praffl-2", {"rows": ["fedavg"]}, "fedavg"),
        ("praffl-7", {"rows": ["praffl"]}, r"split=0\.1"),
        ("praffl-3", {"clients": 5}, "clients: praffl-3 has its own"),
        ("praffl-9", {"partition": "even"}, "partition: praffl-9 has its own"),
        ("praffl-10", {"rows": ["fedfb"]}, "fedfb"),
    ],
)
def test_what_a_table_does_not_have_is_refused(tmp_path, table, values, said):
    with pytest.raises(UserError, match=said):
        reproduce(table, out=tmp_path / "r", **values)
    assert not (tmp_path / "r").exists()


def test_the_tables_are_known_by_their_names():
    figures = {f"praffl-{number}" for number in (6, 7, 8, 9, 10)}
    assert {*TABLES} == {"praffl-2", "praffl-3", "praffl-5.8", *figures}
    assert all(ALL[name] is plan for name in TABLES)
