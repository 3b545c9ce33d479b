"""Files are whole or absent; names lose and gain prefixes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from comity.core import storage
from comity.core.storage import add_prefix, load_values, save_values, strip_prefix, write_whole
from comity.errors import UserError

ARRAYS = {"a": np.arange(6, dtype=np.float64).reshape(2, 3), "b": np.array([1, 2], dtype=np.int64)}
VALUES = {"round": 3, "names": ["x", "ü"], "nested": {"none": None, "share": 0.1}}


@pytest.fixture
def no_space(monkeypatch):
    """Writing stops before the finished file is moved to its place."""

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)


def test_arrays_and_values_come_back_as_they_were(tmp_path):
    path = tmp_path / "state.safetensors"
    save_values(path, {**ARRAYS, "t": ARRAYS["a"].T}, VALUES)
    arrays, values = load_values(path)
    assert values == VALUES
    assert set(arrays) == {"a", "b", "t"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    np.testing.assert_array_equal(arrays["t"], ARRAYS["a"].T, strict=True)  # not contiguous
    assert [file.name for file in tmp_path.iterdir()] == ["state.safetensors"]


@pytest.mark.usefixtures("no_space")
def test_an_interrupted_write_leaves_the_old_file_or_none(tmp_path):
    page, state = tmp_path / "page.html", tmp_path / "state.safetensors"
    for write in (
        lambda: write_whole(page, b"new and longer"),
        lambda: save_values(state, ARRAYS, VALUES),
    ):
        with pytest.raises(OSError, match="no space"):
            write()
    assert not page.exists()
    assert not state.exists()
    page.write_bytes(b"old")
    with pytest.raises(OSError, match="no space"):
        write_whole(page, b"new and longer")
    assert page.read_bytes() == b"old"


def test_a_whole_file_replaces_the_old_one_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "results.json"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_differ_in_their_suffix_are_written_side_by_side(tmp_path, monkeypatch):
    """The unfinished copies of page.html and page.json have different names."""
    parts = []
    monkeypatch.setattr(storage, "_commit", lambda part, path: parts.append(part.name))
    write_whole(tmp_path / "page.html", b"")
    write_whole(tmp_path / "page.json", b"")
    assert parts == ["page.html.part", "page.json.part"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def foreign(path: Path) -> None:
    storage.save_file(ARRAYS, path)  # a safetensors file without our metadata


@pytest.mark.parametrize("damage", [cut, foreign, Path.unlink, lambda p: p.write_text("?")])
def test_a_damaged_file_is_the_users_business_and_is_named(tmp_path, damage):
    path = tmp_path / "state.safetensors"
    save_values(path, ARRAYS, VALUES)
    damage(path)
    with pytest.raises(UserError, match=r"state\.safetensors is damaged or not ours: "):
        load_values(path)


def test_a_prefix_selects_and_goes():
    values = {"model.a": 1, "model.model.b": 2, "head.a": 3, "model": 4}
    assert strip_prefix(values, "model.") == {"a": 1, "model.b": 2}
    assert strip_prefix(values, "none.") == {}
    assert values["model.a"] == 1


def test_a_prefix_goes_before_every_name_and_off_again():
    values = {"a": 1, "model.b": 2}
    assert add_prefix(values, "model.") == {"model.a": 1, "model.model.b": 2}
    assert strip_prefix(add_prefix(values, "model."), "model.") == values
