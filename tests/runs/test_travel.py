"""Runs that are moved, without the rows that they learned from."""

from __future__ import annotations

import csv
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import comity
from comity import api
from comity.errors import UserError
from comity.problems.own_table import table_problem
from comity.runs.directory import Run
from comity.runs.rows import read_rows

SHORT = {"rounds": 2, "supervised": {"local_steps": 3}}
OWN = {
    "name": "loans",
    "label": "repaid",
    "missing": "category",
    "features": ["sex", "age", "income", "job"],
    "sensitive": {
        "sex": {"column": "sex"},
        "age": {"column": "age", "groups": {"young": "< 40", "old": "*"}},
    },
    "client": "bank",
}


def loans(rows: int = 240, seed: int = 1) -> dict[str, list[str]]:
    draw = random.Random(seed)
    columns: dict[str, list[str]] = {
        name: [] for name in ("bank", "sex", "age", "income", "job", "repaid")
    }
    for row in range(rows):
        income = draw.gauss(30, 8)
        values = {
            "bank": ("north", "south")[row % 2],
            "sex": draw.choice(["f", "m"]),
            "age": str(draw.randint(18, 80)),
            "income": "" if row % 20 == 0 else f"{income:.1f}",
            "job": draw.choice(["cook", "other", ""]),
            "repaid": "yes" if income + draw.gauss(0, 4) > 30 else "no",
        }
        for name, value in values.items():
            columns[name].append(value)
    return columns


def write(path: Path, columns: dict[str, list[str]]) -> Path:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path


def forget() -> None:
    """Forget the tables that this process has read."""
    from comity.problems import fairness, own_table, schema, schema_pictures

    for cache in (
        *(own_table._read, own_table._described, fairness._samples),
        *(schema._described, schema._tables, schema._joined),
        *(schema_pictures._described, schema_pictures._albums),
    ):
        cache.cache_clear()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A run on a file that is gone, in a directory that was moved; and answers from before."""
    home = tmp_path_factory.mktemp("own")
    data = write(home / "loans.csv", loans())
    run = comity.run(
        {"data": str(data), **OWN},
        algorithm="fedavg",
        clients=2,
        partition="natural",
        out=home / "here" / "run",
        **SHORT,
    )
    new = write(home / "new.csv", loans(30, seed=2))
    answers = comity.predict(run, new, client=1)
    exported = comity.export(run, home / "before.safetensors", client=1).read_bytes()
    page = (run.path / "report.html").read_bytes()
    inputs = run.configuration.get_problem().inputs_of(loans(30, seed=2))
    data.unlink()
    shutil.move(home / "here", home / "elsewhere")
    forget()
    return home, answers, exported, page, inputs


def test_the_schema_holds_no_rows(own):
    home, *_ = own
    schema = json.loads((home / "elsewhere" / "run" / "schema.json").read_text())
    assert (schema["kind"], schema["learned"], schema["name"]) == ("table", True, "loans")
    assert schema["columns"]["job"] == {"values": ["", "cook", "other"]}
    assert schema["columns"]["repaid"] == {"values": ["no", "yes"]}
    incomes = sorted(float(cell) for cell in loans()["income"] if cell)
    middle = len(incomes) // 2  # of an even number
    assert schema["columns"]["income"]["median"] == (incomes[middle - 1] + incomes[middle]) / 2
    assert schema["sensitive"]["age"] == {
        "column": "age",
        "groups": {"young": "< 40", "old": "*"},
    }
    assert "rows" not in schema
    assert str(home) not in json.dumps(schema)


def test_answers_exports_and_pages_are_those_from_before(own):
    home, answers, exported, page, _ = own
    run = comity.open(home / "elsewhere" / "run")
    assert comity.predict(run, home / "new.csv", client=1) == answers
    target = home / "after.safetensors"
    assert comity.export(run, target, client=1).read_bytes() == exported
    (run.path / "report.html").unlink()
    api.report(run.path)
    assert (run.path / "report.html").read_bytes() == page


def test_inputs_have_the_bits_of_training(own):
    home, *_, inputs = own
    rows = read_rows(comity.open(home / "elsewhere" / "run"), loans(30, seed=2))
    assert torch.equal(rows.inputs, inputs)
    cells = loans(30, seed=2)
    assert rows.label.tolist() == [int(cell == "yes") for cell in cells["repaid"]]
    assert rows.attribute_values == {"sex": ("f", "m"), "age": ("young", "old")}
    assert rows.sensitive["sex"].tolist() == [int(cell == "m") for cell in cells["sex"]]
    assert rows.sensitive["age"].tolist() == [int(int(cell) >= 40) for cell in cells["age"]]


def test_label_and_groups_may_be_absent(own):
    home, *_ = own
    run = comity.open(home / "elsewhere" / "run")
    cells = loans(30, seed=2)
    del cells["repaid"], cells["bank"]
    rows = read_rows(run, cells)
    assert rows.label is None
    assert set(rows.sensitive) == {"sex", "age"}


def test_faults_of_new_rows_are_listed_together(own):
    home, *_ = own
    run = comity.open(home / "elsewhere" / "run")
    cells = loans(30, seed=2)
    cells["age"][3], cells["sex"][4], cells["repaid"][5] = "old", "x", "maybe"
    faults = (
        r"3 faults: .*row 6, column 'sex' is 'x'.*row 5, column 'age' must be a number.*"
        r"row 7, column 'repaid' is 'maybe', but the label is 'yes' or 'no'"
    )
    with pytest.raises(UserError, match=faults):
        read_rows(run, cells)
    cells = {**loans(30, seed=2), "job": ["smith"] * 30}  # other is a value like any
    with pytest.raises(UserError, match="'job' is 'smith', which is not one of cook, other"):
        comity.predict(run, cells, client=0)


def test_training_again_says_that_it_needs_the_rows(own, tmp_path):
    home, *_ = own
    run = Run.open(home / "elsewhere" / "run")
    with pytest.raises(UserError, match=r"cannot read .*loans\.csv: .*Training needs the rows"):
        run.training_configuration  # noqa: B018  (it reads the file)
    half = tmp_path / "half"
    shutil.copytree(run.path, half)
    (half / "results.json").unlink()
    with pytest.raises(UserError, match="Training needs the rows"):
        comity.resume(half)


def test_a_run_on_columns_can_be_opened_by_another_program(tmp_path, monkeypatch):
    from comity.problems import registry

    columns = loans()
    problem = table_problem(columns, **{**OWN, "name": "in-memory"})
    run = comity.run(problem, algorithm="praffl", clients=2, out=tmp_path / "run", **SHORT)
    answers = comity.predict(run, columns, client=0, preference=[0.5, 0.3, 0.2])
    monkeypatch.delitem(registry._REGISTRY, "in-memory")
    forget()
    again = comity.open(tmp_path / "run")
    assert comity.predict(again, columns, client=0, preference=[0.5, 0.3, 0.2]) == answers


# -- public schemas ------------------------------------------------------------------------


def test_a_run_on_a_public_schema_travels(tmp_path):
    cells = loans()
    for bank in ("north", "south"):
        rows = [row for row, name in enumerate(cells["bank"]) if name == bank]
        part = {name: [column[row] for row in rows] for name, column in cells.items()}
        write(tmp_path / f"{bank}.csv", {k: part[k] for k in ("age", "sex", "repaid")})
    schema = {
        "kind": "table",
        "label": "repaid",
        "positive": "yes",
        "columns": {
            "age": {"type": "number", "scale": "federated"},
            "sex": {"values": ["f", "m"], "sensitive": True},
        },
        "rows": [str(tmp_path / f"{bank}.csv") for bank in ("north", "south")],
    }
    run = comity.run(schema, algorithm="fedavg", out=tmp_path / "run", **SHORT)
    answers = comity.predict(run, cells, client=1)
    point = run.configuration.get_problem().strict_point()
    for bank in ("north", "south"):
        (tmp_path / f"{bank}.csv").unlink()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    forget()
    again = comity.open(tmp_path / "moved")
    assert comity.predict(again, cells, client=1) == answers
    assert again.configuration.get_problem().strict_point() == point
    api.report(again.path)
    assert read_rows(again, cells).sensitive["sex"].sum() == cells["sex"].count("m")


def test_a_run_on_own_pictures_travels(tmp_path):
    draw = np.random.default_rng(1)
    for name in "ab":
        images = draw.integers(0, 256, (40, 1, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(40) % 2)
    problem = {
        "kind": "pictures",
        "classes": ["cat", "dog"],
        "shape": [1, 8, 8],
        "network": "mlp",
        "rows": [str(tmp_path / f"{name}.npz") for name in "ab"],
    }
    run = comity.run(problem, algorithm="fedavg", out=tmp_path / "run", **SHORT)
    model = run.model(1)
    drawn = {path.name for path in run.path.glob("*.png")}
    for name in "ab":
        (tmp_path / f"{name}.npz").unlink()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    forget()
    again = comity.open(tmp_path / "moved")
    inputs = torch.rand(3, 1, 8, 8)
    assert torch.equal(again.model(1)(inputs), model(inputs))
    for path in again.path.glob("*.png"):
        path.unlink()
    api.report(again.path)
    assert {path.name for path in again.path.glob("*.png")} == drawn


def test_a_search_on_own_rows_travels(tmp_path):
    data = write(tmp_path / "loans.csv", loans())
    settings = {"iterations": 1, "candidates": 2, "clients": 2, "generator": "random"}
    search = comity.search(
        {"data": str(data), **OWN, "sensitive": ["sex"]}, out=tmp_path / "s", **settings, **SHORT
    )
    inputs = torch.zeros(2, 8)  # two sexes, age, income, whether it is known, three jobs
    outputs = search.front.best([0.5, 0.5])(inputs)
    data.unlink()
    shutil.move(tmp_path / "s", tmp_path / "moved")
    forget()
    again = comity.open(tmp_path / "moved")
    assert torch.equal(again.front.best([0.5, 0.5])(inputs), outputs)
    api.report(again.path)
