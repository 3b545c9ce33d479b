"""Answers and exported models through the command line; in this process, as imports are slow."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import sys

import numpy as np
import onnxruntime
import pytest
import torch

import comity as library
import tests.tiny  # noqa: F401  (which makes its problems known)
from comity.cli import main
from comity.datasets.shipped import DATASETS, shipped
from tests.nnef_referees import assert_same_everywhere

SHORT = ("--clients", "3", "--rounds", "2", "--workers", "1")
FEW = ("--set", "supervised.local_steps=5")
WISH = ("--preference", "0.7,0.3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs that all tests read: any preference, none, and environments."""
    home = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("comity.report.write_report", lambda run, kind: None)
        patch.chdir(home)
        for name, words in {
            "any": ["german-credit-gender-dp", "--algorithm", "praffl", *SHORT, *FEW],
            "none": ["tiny-people", "--algorithm", "fedavg", *SHORT],
            "boat": ["tiny-treasure", "--algorithm", "fedavg", *SHORT],
        }.items():
            patch.setattr(sys, "argv", ["comity", "run", *words, "--out", name])
            with pytest.raises(SystemExit) as exit:
                main()
            assert exit.value.code == 0
        shutil.copytree(home / "any", home / "half")
        (home / "half" / "results.json").unlink()
        (home / "empty.csv").write_text("")
        for name, change in CHANGES.items():
            columns = {column: cells[:4] for column, cells in shipped("german-credit").items()}
            change(columns)
            (home / f"{name}.csv").write_text(text_of(columns))
        (home / "all.csv").write_text(text_of(shipped("german-credit")))
        with gzip.open(home / "rows.csv.gz", "wt") as file:
            file.write((home / "rows.csv").read_text())
    return home


def text_of(columns):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


LABEL = DATASETS["german-credit"].label


def set_cell(column, value):
    return lambda columns: columns[column].__setitem__(2, value)  # row 4 of the file


CHANGES = {
    "rows": lambda columns: None,
    "unlabelled": lambda columns: columns.pop(LABEL),
    "lacking": lambda columns: [columns.pop(name) for name in ("age", "duration")],
    "odd": set_cell("purpose", "A499"),
    "words": set_cell("age", "old"),
}


@pytest.fixture
def call(runs, monkeypatch, capsys):
    """The command line beside the runs; returns what it said."""
    monkeypatch.chdir(runs)

    def called(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        said = capsys.readouterr()
        assert exit.value.code == code, said.err
        assert said.err.count("\n") == (code != 0), said.err
        return said.err if code else said.out

    return called


# -- predict -------------------------------------------------------------------------------


def test_predict_prints_one_line_a_row(call, runs):
    lines = list(csv.reader(call("predict", "any", "--client", 1, *WISH, "rows.csv").splitlines()))
    assert lines[0] == ["row", "probability", "answer"]
    assert [line[0] for line in lines[1:]] == ["2", "3", "4", "5"]
    run = library.open(runs / "any")
    rows = run.configuration.get_problem().columns()["inputs"][:4]
    chances = torch.sigmoid(run.model_for(1, [0.7, 0.3])(rows)).detach()[:, 0].numpy()
    np.testing.assert_allclose([float(line[1]) for line in lines[1:]], chances, atol=1e-6)
    assert [int(line[2]) for line in lines[1:]] == (chances > 0.5).astype(int).tolist()


def test_predict_uses_client_and_preference(call):
    asked = [
        ["--client", 1, "rows.csv"],
        ["--client", 2, "rows.csv"],
        ["--client", 1, *WISH, "rows.csv"],
    ]
    said = [call("predict", "any", *words) for words in asked]
    assert len(set(said)) == 3


def test_predict_needs_neither_label_nor_plain_text(call):
    said = call("predict", "none", "--client", 1, "rows.csv")
    assert said.count("\n") == 5
    for same in ("unlabelled.csv", "rows.csv.gz"):
        assert call("predict", "none", "--client", 1, same) == said


def test_predict_writes_a_new_file_only(call, tmp_path):
    out = tmp_path / "answers.csv"
    said = call("predict", "any", "--client", 1, "rows.csv", "--out", out)
    assert str(out) in said
    assert out.read_text() == call("predict", "any", "--client", 1, "rows.csv")
    out.write_text("mine")
    error = call("predict", "any", "--client", 1, "rows.csv", "--out", out, code=2)
    assert f"{out} exists already" in error
    assert out.read_text() == "mine"


def test_predict_as_json(call, tmp_path):
    said = json.loads(call("predict", "any", "--client", 1, *WISH, "rows.csv", "--json"))
    assert set(said) == {"run", "client", "name", "preference", "answers"}
    assert said["name"] == "1"
    assert (said["run"], said["client"], said["preference"]) == ("any", 1, [0.7, 0.3])
    lines = call("predict", "any", "--client", 1, *WISH, "rows.csv").splitlines()[1:]
    told = [f"{a['row']},{a['probability']:.6f},{a['answer']}" for a in said["answers"]]
    assert told == lines
    own = json.loads(call("predict", "any", "--client", 1, "rows.csv", "--json"))
    assert sum(own["preference"]) == pytest.approx(1)


# -- export --------------------------------------------------------------------------------


def test_export_and_load(call, runs, tmp_path):
    target = tmp_path / "model.safetensors"
    assert str(target) in call("export", "any", "--client", 2, *WISH, target)
    run = library.open(runs / "any")
    rows = run.configuration.get_problem().columns()["inputs"]
    expected = run.model_for(2, [0.7, 0.3])(rows)
    assert torch.equal(library.load_exported(target)(rows), expected)
    first = target.read_bytes()
    error = call("export", "any", "--client", 2, target, code=2)
    assert "exists already" in error
    assert "--force" in error
    assert target.read_bytes() == first
    call("export", "any", "--client", 2, target, "--force")
    assert target.read_bytes() != first


def test_export_to_onnx(call, runs, tmp_path):
    target = tmp_path / "model.onnx"
    call("export", "boat", "--client", 2, target)
    seen = np.random.default_rng(1).random((7, 2), dtype=np.float32)
    (values,) = onnxruntime.InferenceSession(target).run(None, {"inputs": seen})
    expected = library.open(runs / "boat").model(2)(torch.from_numpy(seen)).detach().numpy()
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_export_to_nnef(call, runs, tmp_path):
    target = tmp_path / "model.nnef"
    said = call("export", "any", "--client", 2, *WISH, target)
    assert str(target) in said
    assert str(tmp_path / "model.card.md") in said
    rows = library.open(runs / "any").configuration.get_problem().columns()["inputs"][:1]
    assert_same_everywhere(target, library.open(runs / "any").model_for(2, [0.7, 0.3]), rows)
    assert "--force" in call("export", "any", "--client", 2, target, code=2)


# -- bad input -----------------------------------------------------------------------------

PREFERENCES = {
    "off the simplex": ("0.7,0.7", ["[0.7, 0.7]", "sum to one"]),
    "negative": ("-0.5,1.5", ["[-0.5, 1.5]", "non-negative"]),
    "all zero": ("0,0", ["[0.0, 0.0]", "sum to one"]),
    "no number": ("nan,1", ["nan", "simplex"]),
    "too long": ("0.5,0.3,0.2", ["2 objectives (accuracy, fairness)", "got 3 weights"]),
    "too short": ("1", ["2 objectives", "got 1 weights"]),
    "words": ("much,little", ["--preference much,little", "0.7,0.3"]),
    "nothing": ("", ["--preference", "0.7,0.3"]),
}


@pytest.mark.parametrize(("preference", "words"), PREFERENCES.values(), ids=PREFERENCES)
@pytest.mark.parametrize("command", ["predict", "export"])
def test_bad_preferences(call, command, preference, words):
    target = "rows.csv" if command == "predict" else "new.safetensors"
    said = call(command, "any", "--client", 1, "--preference", preference, target, code=2)
    assert all(word in said for word in words), said


ANYWHERE = {
    "client out of range": (["any", "--client", "3"], ["client = 3", "0 to 2"]),
    "negative client": (["any", "--client", "-1"], ["client = -1", "0 to 2"]),
    "unknown client": (["any", "--client", "first"], ["unknown client 'first'", "0, 1, 2"]),
    "no client": (["any"], ["--client"]),
    "unfinished": (["half", "--client", "1"], ["half is not finished", "comity resume half"]),
    "no preference taken": (
        ["none", "--client", "1", *WISH],
        ["fedavg takes no preference", "praffl"],
    ),
    "no run": (["nowhere", "--client", "1"], ["nowhere", "not a run directory"]),
}


@pytest.mark.parametrize(("arguments", "words"), ANYWHERE.values(), ids=ANYWHERE)
@pytest.mark.parametrize("command", ["predict", "export"])
def test_bad_runs_and_clients(call, runs, command, arguments, words):
    target = "rows.csv" if command == "predict" else "new.safetensors"
    said = call(command, *arguments, target, code=2)
    assert all(word in said for word in words), said
    assert not (runs / "new.safetensors").exists()


DATA = {
    "missing columns": (
        "lacking.csv",
        ["2 faults", "'duration' is absent", "'age' is absent"],
    ),
    "unknown category": ("odd.csv", ["'purpose'", "row 4", "A499", "A43"]),
    "text for a number": ("words.csv", ["row 4", "'age'", "must be a number", "'old'"]),
    "empty file": ("empty.csv", ["empty.csv", "column names"]),
    "no file": ("nothing.csv", ["there is no file nothing.csv"]),
}


@pytest.mark.parametrize(("data", "words"), DATA.values(), ids=DATA)
def test_bad_data(call, data, words):
    said = call("predict", "any", "--client", 1, *WISH, data, code=2)
    assert all(word in said for word in words), said


def test_environments_have_no_rows(call):
    said = call("predict", "boat", "--client", 1, "rows.csv", code=2)
    assert "tiny-treasure has environments" in said
    assert "run.model" in said


def test_bad_targets(call, runs):
    said = call("export", "any", "--client", 1, "model.pt", code=2)
    assert "model.pt" in said
    assert ".safetensors, .onnx or .nnef" in said
    said = call("export", "any", "--client", 1, "nowhere/model.safetensors", code=2)
    assert "cannot write nowhere/model.safetensors" in said
    said = call("predict", "any", "--client", 1, "rows.csv", "--out", "nowhere/a.csv", code=2)
    assert "cannot write nowhere/a.csv" in said


def test_a_comparison_is_no_run(call, runs, monkeypatch):
    monkeypatch.setattr("comity.report.write_report", lambda run, kind: None)
    monkeypatch.setattr("comity.report.write_comparison_report", lambda *about: None)
    words = ["tiny-people", "--algorithms", "fedavg", "--seeds", "1", *SHORT, "--out", "side"]
    call("compare", *words)
    said = call("predict", "side", "--client", 1, "rows.csv", code=2)
    assert "side is not a single run" in said


# -- measures of new rows ------------------------------------------------------------------


def test_report_measures_new_rows_per_group(call, runs):
    text = call("predict", "any", "--client", 1, "all.csv", "--report", "--json")
    values = json.loads(text)
    gender = values["groups"]["attributes"]["gender"]
    sex, risk = shipped("german-credit")["personal_status_sex"], shipped("german-credit")[LABEL]
    yes = [answer["answer"] for answer in values["answers"]]
    women = [number for number, code in enumerate(sex) if code == "A92"]
    assert gender["values"]["female"]["rows"] == len(women) == 310
    rate = sum(yes[number] for number in women) / 310
    assert gender["values"]["female"]["selection_rate"]["value"] == pytest.approx(rate, abs=1e-6)
    right = sum(yes[number] and risk[number] == "1" for number in women)
    assert gender["values"]["female"]["true_positives"] == right
    table = call("predict", "any", "--client", 1, "all.csv", "--report")
    assert "Groups in all.csv, model of 1" in table
    assert "gender = female" in " ".join(table.split())


@pytest.mark.parametrize(
    ("file", "words"),
    [("unlabelled", f"data: the rows have no label: add the column '{LABEL}'")],
)
def test_report_needs_the_label(file, words, call):
    assert words in call("predict", "any", "--client", 1, f"{file}.csv", "--report", code=2)


def test_export_writes_a_card(call, runs):
    text = call("export", "none", "--client", 0, "card.safetensors")
    assert "Card: card.card.md" in text
    assert (runs / "card.card.md").read_text().startswith("# Model card: ")


def test_cross_prints_every_model_for_every_client(call, runs):
    values = json.loads(call("cross", "none", "--json"))
    results = json.loads((runs / "none" / "results.json").read_text())
    own = [values["vectors"][client][client] for client in range(3)]
    assert own == [list(row["objectives"].values()) for row in results["per_client"]]
    assert "How each client is served" in call("cross", "none")
    call("export", "none", "--client", 0, "crossed.safetensors")
    one = json.loads(call("cross", "none", "--model", "crossed.safetensors", "--json"))
    assert one["models"] == ["crossed.safetensors"]
