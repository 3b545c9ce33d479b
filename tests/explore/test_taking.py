"""Downloads are the very bytes that `comity export` writes."""

from __future__ import annotations

import io
import zipfile

import pytest

from comity.report.card import export


@pytest.mark.parametrize(
    ("id", "preference"), [("credit", None), ("spanning", None), ("spanning", [0.25, 0.75])]
)
@pytest.mark.parametrize("format", ["safetensors", "onnx", "nnef", "card"])
def test_downloads_equal_exported_files(ask, request, tmp_path, id, preference, format):
    run = request.getfixturevalue(id)
    weights = {} if preference is None else {"preference": "0.25,0.75"}
    answer = ask("export", id=id, client=1, format=format, **weights)
    suffix = "safetensors" if format == "card" else format
    target = tmp_path / f"{id}-client-1.{suffix}"
    export(run, target, 1, preference)
    assert answer.status == 200
    name = answer.headers["content-disposition"].split('"')[1]
    if format == "nnef":
        assert name == f"{target.name}.zip"
        archive = zipfile.ZipFile(io.BytesIO(answer.body))
        files = {f"{target.name}/{file.name}": file.read_bytes() for file in target.iterdir()}
        assert {each: archive.read(each) for each in archive.namelist()} == files
        assert len(files) > 1
        return
    file = target.with_suffix(".card.md") if format == "card" else target
    assert name == file.name
    assert answer.body == file.read_bytes()


def test_models_at_two_preferences_differ(ask):
    bodies = {
        ask("export", id="spanning", client=0, format="safetensors", preference=weights).body
        for weights in ("0.2,0.8", "0.9,0.1")
    }
    assert len(bodies) == 2
