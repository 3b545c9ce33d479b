"""The file that Weights & Biases writes offline, read back record by record."""

from __future__ import annotations

import json
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from comity.callbacks import WandB
from comity.errors import StoppedError, UserError
from tests.callbacks.logged import logged_run, trained


def records(path: Path) -> list[Any]:
    """Return the records of a file of Weights & Biases.

    After 7 bytes come blocks of 32 KiB with chunks: checksum, length and kind, then content. A
    record is one chunk (kind 1), or a first, middle and last one (2, 3, 4).
    """
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, block = path.read_bytes(), 7, 1 << 15
    found, parts = [], b""
    while place + 7 <= len(content):
        if block - place % block < 7:  # no chunk begins so near the end of a block
            place += block - place % block
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(parts)
            found.append(record)
            parts = b""
    return found


def values_of(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def test_an_offline_file_has_history_settings_and_results(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    options = {"mode": "offline", "dir": str(tmp_path)}
    run = logged_run(tmp_path / "r", WandB("mine", **options))
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    for _ in range(600):  # another process writes it
        written = records(path)
        if any(each.HasField("exit") for each in written):
            break
        time.sleep(0.1)
    rounds = [values_of(each.history.item) for each in written if each.HasField("history")]
    assert [line["_step"] for line in rounds] == [1, 2]
    assert [line["trained/accuracy"] for line in rounds] == trained(run, "accuracy")
    (about,) = [each.run for each in written if each.HasField("run")]
    assert (about.project, about.display_name) == ("mine", "tiny-people, fedavg, seed 1")
    config = values_of(about.config.update)
    assert config["supervised"] == run.configuration.learner_settings
    summary: dict[str, Any] = {}
    for each in written:
        if each.HasField("summary"):
            summary |= values_of(each.summary.update)
    for name, value in run.results["metrics"].items():
        assert summary[f"result/{name}"] == value
    assert summary["verdict"].startswith(run.results["verdict"]["sentences"][0])


def test_a_failure_says_how_to_go_on_without_an_account(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not installed")

    def refuse(**options: Any) -> None:
        raise wandb.Error("No API key configured.")

    monkeypatch.setattr(wandb, "init", refuse)
    with pytest.raises(StoppedError, match=r"failed: No API key configured\. .*WANDB_MODE=offline"):
        logged_run(tmp_path / "r", WandB())


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"Weights & Biases is not installed.*comity\[wandb\]"):
        WandB()
