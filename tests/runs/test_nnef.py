"""Exported NNEF directories: whole or absent, with header and card."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import torch
from torch import nn

import comity
import tests.tiny  # noqa: F401  (which makes its problems known)
from comity.report.card import read_card
from comity.runs import nnef
from tests.nnef_referees import assert_same_everywhere

WISH = [0.7, 0.3]
EXAMPLE = torch.zeros(1, 2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("comity.report.write_report", lambda run, kind: None)
        settings = {"clients": 3, "rounds": 2, "supervised": {"local_steps": 3}}
        out = tmp_path_factory.mktemp("runs") / "praffl"
        yield comity.run("tiny-people", algorithm="praffl", out=out, **settings)


def content(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_personal_model_at_one_preference(run, tmp_path):
    path = comity.export(run, tmp_path / "model.nnef", 2, WISH)
    model = run.model_for(2, WISH)
    inputs = run.configuration.get_problem().columns()["inputs"][:1]
    assert_same_everywhere(path, model, inputs)
    names = {f"{name}.dat" for name in model.state_dict()}
    assert set(content(path)) == {"graph.nnef", "comity.json", *names}
    about = json.loads((path / "comity.json").read_text())
    assert (about["client"], about["preference"]) == (2, WISH)
    assert len(about["features"]) == inputs.shape[1]
    assert "logit of yes" in about["outputs"]


def test_two_exports_are_equal_byte_by_byte(run, tmp_path):
    first, second = (comity.export(run, tmp_path / f"{name}.nnef", 1) for name in "ab")
    assert content(first) == content(second)
    other = comity.export(run, tmp_path / "c.nnef", 2)
    assert content(first)["graph.nnef"] == content(other)["graph.nnef"]
    assert content(first) != content(other)


def test_the_card_lists_every_file(run, tmp_path):
    path = comity.export(run, tmp_path / "model.nnef", 1)
    comity.export(run, tmp_path / "model.safetensors", 1)
    files = read_card((tmp_path / "model.card.md").read_text())["files"]
    for name, data in content(path).items():
        assert files[f"model.nnef/{name}"] == hashlib.sha256(data).hexdigest()
    assert set(files) == {f"model.nnef/{name}" for name in content(path)} | {"model.safetensors"}


def test_a_model_is_replaced_only_when_told(run, tmp_path):
    path = comity.export(run, tmp_path / "model.nnef", 1)
    before = content(path)
    with pytest.raises(comity.UserError, match=r"model\.nnef exists already.*--force"):
        comity.export(run, path, 2)
    assert content(path) == before
    (path / "old.dat").write_bytes(b"")  # of a larger network
    comity.export(run, path, 2, force=True)
    assert set(content(path)) == set(before)
    assert content(path) != before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.card.md", "model.nnef"]


@pytest.mark.parametrize("kind", ["file", "photographs", "empty"])
def test_what_is_no_model_is_never_replaced(run, tmp_path, kind):
    target = tmp_path / "model.nnef"
    if kind == "file":
        target.write_bytes(b"mine")
    else:
        target.mkdir()
    if kind == "photographs":
        (target / "graph.nnef").touch()
        (target / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(comity.UserError, match=r"no model in NNEF.*another name"):
        comity.export(run, target, 1, force=True)
    assert target.exists()
    assert kind != "photographs" or (target / "holiday.jpg").read_bytes() == b"mine"


def test_an_interrupted_export_leaves_no_model(tmp_path, monkeypatch):
    target = tmp_path / "model.nnef"

    def interrupted(path, data):
        if path.name == "graph.nnef":
            raise KeyboardInterrupt
        path.write_bytes(data)

    with monkeypatch.context() as patch:
        patch.setattr(nnef, "write_whole", interrupted)
        with pytest.raises(KeyboardInterrupt):
            nnef.write_nnef(target, nn.Linear(2, 1), EXAMPLE, {})
    assert not target.exists()
    nnef.write_nnef(target, nn.Linear(2, 1), EXAMPLE, {})
    assert [path.name for path in tmp_path.iterdir()] == ["model.nnef"]


def test_an_unknown_operator_leaves_no_model(run, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "model", lambda client: nn.Sequential(nn.Linear(61, 2), nn.RReLU()))
    with pytest.raises(comity.UserError, match=r"operator \w*relu\w*.*\.onnx"):
        comity.export(run, tmp_path / "model.nnef", 1)
    assert list(tmp_path.iterdir()) == []


def test_actions_of_a_trolley(tmp_path):
    trolley = comity.run(
        "tiny-trolley", algorithm="fedavg", clients=2, rounds=1, out=tmp_path / "run"
    )
    path = comity.export(trolley, tmp_path / "model.nnef", 0)
    seen = torch.from_numpy(np.float32([[0.5, -1.0]]))
    assert_same_everywhere(path, trolley.model(0), seen)
    assert not list(path.glob("critic*"))
