"""Checksums of finished work: any change is found, NaN is never written."""

from __future__ import annotations

import json

import pytest

from comity.errors import UserError
from comity.runs.checksums import CHECKSUMS, read_json, save_sealed, to_json, verify


def test_what_was_sealed_is_verified(tmp_path):
    (tmp_path / "history.jsonl").write_text("{}\n")
    save_sealed(tmp_path / "results.json", {"a": 1.5}, ["history.jsonl", "none.json"])
    assert json.loads((tmp_path / CHECKSUMS).read_text()).keys() == {
        "history.jsonl",
        "results.json",
    }
    verify(tmp_path)
    for name, change in (("history.jsonl", "{} \n"), ("results.json", '{"a": 1.6}')):
        path = tmp_path / name
        before = path.read_text()
        path.write_text(change)
        with pytest.raises(UserError, match=f"{name} is damaged"):
            verify(tmp_path)
        path.write_text(before)
    (tmp_path / "history.jsonl").unlink()
    with pytest.raises(UserError, match=r"history\.jsonl cannot be read"):
        verify(tmp_path)


def test_work_of_versions_without_checksums_is_taken(tmp_path):
    verify(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '{"a": 1}', "[" * 5000, "\xff"])
def test_what_is_no_result_is_named(text, tmp_path):
    (tmp_path / "results.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"results\.json is damaged: "):
        read_json(tmp_path / "results.json", ["problem"])


def test_numbers_that_are_not_finite_are_named_and_not_written(tmp_path):
    value = {"a": 1.0, "b": [{"c": 2.0}, {"c": float("nan")}]}
    with pytest.raises(UserError, match=r"not a finite number: b\.1\.c"):
        to_json(value, tmp_path / "results.json")
    with pytest.raises(UserError, match="not a finite number: a"):
        save_sealed(tmp_path / "results.json", {"a": float("inf")})
    assert list(tmp_path.iterdir()) == []
