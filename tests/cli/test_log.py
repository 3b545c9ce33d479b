"""Loggers on the command line: ``--log``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import comity
import comity.report
from comity.cli import main

RUN = ["run", "german-credit-gender-dp", "--algorithm", "fedavg", "--clients", "2", "--rounds", "2"]


def call(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["comity", *words])
        patch.setattr(comity.report, "write_report", lambda run, kind: None)
        with pytest.raises(SystemExit) as exit:
            main()
    assert isinstance(exit.value.code, int)
    return exit.value.code


def test_rounds_are_logged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(*RUN, "--out", "r", "--log", "jsonl:a.jsonl", "--log", "jsonl:b.jsonl") == 0
    lines = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", "round", "round", "end"]
    assert lines[-1]["results"] == comity.Run.open("r").results
    assert Path("b.jsonl").read_bytes() == Path("a.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        ("jsonl", "log = jsonl: say where, e.g. jsonl:rounds.jsonl."),
        ("paper:a", "unknown log 'paper'"),
        ("jsonl:nowhere/a.jsonl", "log: cannot write nowhere/a.jsonl"),
    ],
)
def test_a_wrong_log_is_refused_before_anything_is_written(
    log, fault, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert call(*RUN, "--log", log) == 2
    assert fault in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
