"""Damaged files of an item are named; nothing ends in a traceback."""

from __future__ import annotations

import json
import random
import shutil

import pytest

from comity.errors import UserError
from comity.explore.explorer import Explorer
from comity.runs.cross import cross_models
from tests.fuzz.harness import mutated


@pytest.fixture(scope="module")
def whole(credit, tmp_path_factory):
    """A run without results and checksums, as one that was interrupted; and one with all files."""
    place = tmp_path_factory.mktemp("whole")
    shutil.copytree(credit.path, place / "finished")
    (place / "finished" / "checksums.json").unlink()  # runs up to 0.6.0 have none
    (place / "finished" / "cross.json").write_text(json.dumps(cross_models(credit)))
    shutil.copytree(place / "finished", place / "interrupted")
    (place / "interrupted" / "results.json").unlink()
    return place


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ("interrupted", "history.jsonl"),
        ("interrupted", "config.toml"),
        ("finished", "history.jsonl"),
        ("finished", "results.json"),
        ("finished", "cross.json"),
        ("finished", "groups.json"),
        ("finished", "timing.json"),
        ("finished", "models/client-0.safetensors"),
    ],
)
def test_damage_is_named_in_one_sentence(whole, tmp_path, state, name):
    chance = random.Random(f"{state} {name}")
    shutil.copytree(whole / state, tmp_path / state)
    file = tmp_path / state / name
    content = file.read_bytes()
    sentences = []
    for _ in range(40):
        file.write_bytes(mutated(chance, content))
        try:
            explorer = Explorer([tmp_path / state])
            json.dumps(explorer.document(state), allow_nan=False)
            if state == "finished":
                json.dumps(explorer.judge(state, 0, [0.5, 0.5]), allow_nan=False)
        except UserError as error:
            sentences.append(str(error))
    assert sentences
    assert not any("\n" in sentence for sentence in sentences)


def test_every_item_of_a_damaged_shelf_is_listed(whole, tmp_path):
    shutil.copytree(whole / "finished", tmp_path / "good")
    shutil.copytree(whole / "finished", tmp_path / "bad")
    (tmp_path / "bad" / "results.json").write_text("{")
    explorer = Explorer([tmp_path])
    assert [line["id"] for line in explorer.index()["items"]] == ["bad", "good"]
    assert explorer.document("good")["verdict"] is not None
    with pytest.raises(UserError, match=r"bad/results.json is damaged"):
        explorer.document("bad")
