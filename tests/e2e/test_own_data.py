"""From a messy file to models that travel, through the command line, as a newcomer would go."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import sys
import tomllib

import pytest

from comity.cli import main
from tests.runs.test_travel import forget

BANKS = ("BancoSur", "Müller & Söhne", "Sparkasse Nord")


def messy(rows: int, seed: int) -> str:
    """Return a table of three banks as a spreadsheet in German saves it."""
    draw, text = random.Random(seed), io.StringIO()
    table = csv.writer(text, delimiter=";", lineterminator="\r\n")
    table.writerow(
        [
            "Kunden-ID",
            "Bank",
            "Name",
            "Geschlecht",
            "Eröffnet",
            "Einkommen",
            "Beruf",
            "zurückgezahlt",
        ]
    )
    for row in range(rows):
        sex, income = draw.choice(["w", "m"]), draw.gauss(3000, 800)
        paid = income + 300 * (sex == "m") + draw.gauss(0, 300) > 3100
        date = f"{draw.randint(1, 28):02}.{draw.randint(1, 12):02}.{draw.randint(1999, 2024)}"
        table.writerow(
            [
                10_000 + row,
                BANKS[row % 3],
                f"Kunde Nr. {row}, Jürgen",
                sex,
                date,
                "n/a" if row % 17 == 0 else german(income),
                draw.choice(["Bäcker", "Köchin", "Schmied"]),
                "ja" if paid else "nein",
            ]
        )
    return text.getvalue()


def german(number: float) -> str:
    """Return a number such as 3.210,50."""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def called(*words: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["comity", *map(str, words)])
        with pytest.raises(SystemExit) as exit:
            main()
        streams = capsys.readouterr()
        assert exit.value.code == code, streams.err
        return streams.err if code else streams.out

    return called


def test_a_messy_table_of_three_banks_becomes_models_that_travel(call, tmp_path):
    (tmp_path / "kredite.csv").write_bytes(messy(300, 1).encode("latin-1"))
    shown = call("describe", "kredite.csv", "--out", "my.toml")
    for text in ("Kunden-ID", "every row has another whole number", "comity run --config my.toml"):
        assert text in shown
    assert "choose" not in shown.lower()
    values = tomllib.loads((tmp_path / "my.toml").read_text(encoding="utf-8"))
    assert (values["clients"], values["partition"]) == (3, "natural")
    assert values["problem"] == {
        "data": "kredite.csv",
        "name": "kredite",
        "label": "zurückgezahlt",
        "positive": "ja",
        "sensitive": ["Geschlecht"],
        "client": "Bank",
        "missing": "category",
        "separator": ";",
        "encoding": "cp1252",
        "decimal": ",",
        "thousands": ".",
    }

    call("run", "--config", "my.toml", "--rounds", 3, "--workers", 1, "--out", "runs/kredite")
    results = json.loads((tmp_path / "runs/kredite/results.json").read_text())
    assert [row["name"] for row in results["per_client"]] == list(BANKS)
    notes = " ".join(results["notes"])
    for text in ("semicolons", "cp1252", "decimal commas", "Kunden-ID is no input", "Name is no"):
        assert text in notes
    assert "Geschlecht is sensitive and no input" in notes
    assert "Eröffnet is taken as days since 1970" in notes

    (tmp_path / "neu.csv").write_bytes(messy(30, 2).encode("latin-1"))
    model = ("--client", "Müller & Söhne")
    answers = call("predict", "runs/kredite", *model, "neu.csv")
    assert answers.count("\n") == 31
    call("export", "runs/kredite", *model, "model.safetensors")
    exported = (tmp_path / "model.safetensors").read_bytes()
    card = (tmp_path / "model.card.md").read_text()
    assert "for Müller & Söhne" in card
    assert "| Geschlecht | rows |" in card

    (tmp_path / "kredite.csv").unlink()
    shutil.move(tmp_path / "runs" / "kredite", tmp_path / "elsewhere")
    forget()
    assert call("predict", "elsewhere", *model, "neu.csv") == answers
    call("export", "elsewhere", *model, "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == exported
    (tmp_path / "elsewhere" / "report.html").unlink()
    call("report", "elsewhere")
    page = (tmp_path / "elsewhere" / "report.html").read_text()
    assert "kredite" in page
    about = json.loads(call("predict", "elsewhere", *model, "neu.csv", "--json"))
    assert (about["client"], about["name"]) == (1, "Müller & Söhne")


def test_what_needs_the_rows_says_so(call, tmp_path):
    (tmp_path / "kredite.csv").write_bytes(messy(300, 1).encode("latin-1"))
    call("describe", "kredite.csv", "--out", "my.toml")
    call("run", "--config", "my.toml", "--rounds", 1, "--workers", 1, "--out", "r")
    (tmp_path / "kredite.csv").unlink()
    forget()
    error = call("run", "--config", "r/config.toml", "--out", "again", code=2)
    assert "Training needs the rows" in error
    assert error.count("\n") == 1
    error = call("predict", "r", "--client", "Muller & Sohne", "neu.csv", code=2)
    assert "Did you mean 'Müller & Söhne'?" in error


def test_faults_of_a_file_are_listed_together(call, tmp_path):
    (tmp_path / "loans.csv").write_text(
        "sex,age,repaid\nf,30,yes\nm,,no\nx,40,maybe\n" + "m,50,no\nf,20,yes\n" * 10
    )
    (tmp_path / "my.toml").write_text(
        '[problem]\ndata = "loans.csv"\nlabel = "repaid"\n'
        '[problem.sensitive.sex]\ncolumn = "sex"\ngroups = {f = ["f"], m = ["m"]}\n'
    )
    error = call("run", "--config", "my.toml", code=2)
    assert error.count("\n") == 1
    for text in ("3 faults", "row 3, column 'age' is missing", "'x' (row 4", "'maybe' (row 4)"):
        assert text in error, error


def test_a_draft_that_needs_a_choice_says_which(call, tmp_path):
    lines = [f"{row % 2},{row % 3 % 2},{row / 7:.2f}" for row in range(60)]
    (tmp_path / "plain.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    text = call("describe", "plain.csv")
    assert "# TO CHOOSE: label" in text
    assert "# TO CHOOSE: sensitive" in text
    assert '# label: perhaps "a" (two values, 0 and 1)' in text
    assert tomllib.loads(text)["problem"] == {"data": "plain.csv", "name": "plain"}
    drafted = json.loads(call("describe", "plain.csv", "--json"))
    assert drafted["complete"] is False
    assert [c["column"] for c in drafted["candidates"]["label"]] == ["a", "b"]
    assert drafted["columns"][2]["kind"] == "number"
    (tmp_path / "my.toml").write_text("mine")
    assert "exists already" in call("describe", "plain.csv", "--out", "my.toml", code=2)
    assert "no file" in call("describe", "nowhere.csv", code=2)
