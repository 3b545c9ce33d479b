"""Events as lines of JSON."""

from __future__ import annotations

import json

import pytest

from comity.callbacks import JsonLines, logger
from comity.errors import UserError
from tests.callbacks.logged import logged_run, trained


def test_lines_have_the_values_of_the_history(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("{}\n")
    run = logged_run(tmp_path / "r", JsonLines(path))
    _, start, *rounds, end = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in (start, *rounds, end)] == ["start", "round", "round", "end"]
    assert start["settings"] == json.loads(json.dumps(run.configuration.plain()))
    assert [line["vectors"]["kept"] for line in rounds] == [
        entry["kept"] for entry in run.history[:2]
    ]
    assert [line["metrics"]["trained/accuracy"] for line in rounds] == trained(run, "accuracy")
    assert [line["metrics"]["bytes_up"] for line in rounds] == [
        entry["bytes_up"] for entry in run.history[:2]
    ]
    assert end["results"] == run.results


def test_a_file_that_cannot_be_written_is_named_at_once(tmp_path):
    with pytest.raises(UserError, match=r"log: cannot write .*nowhere/log.jsonl: No such file"):
        JsonLines(tmp_path / "nowhere" / "log.jsonl")


def test_loggers_are_named_on_the_command_line(tmp_path):
    assert isinstance(logger(f"jsonl:{tmp_path / 'a.jsonl'}"), JsonLines)
    with pytest.raises(UserError, match=r"unknown log 'json'.*jsonl"):
        logger("json:a")
    with pytest.raises(UserError, match="log = jsonl: say where"):
        logger("jsonl")
