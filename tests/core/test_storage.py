"""Files are whole or absent; names lose and gain prefixes."""

from __future__ import annotations

import ctypes
import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from comity.core import storage
from comity.core.storage import (
    add_prefix,
    append,
    load_values,
    own_directory,
    remove_leftovers,
    save_values,
    strip_prefix,
    write_together,
    write_whole,
)
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


class Library:
    """A C library whose ``syncfs`` notes which files are there, and may fail."""

    def __init__(self, directory, result):
        self.directory, self.result, self.names = directory, result, []

    def syncfs(self, handle):
        self.names.append({path.name for path in self.directory.iterdir()})
        ctypes.set_errno(errno.EIO)
        return self.result


def many(directory):
    return [(directory / f"{number}", b"new") for number in range(20)]


def test_many_files_wait_once_for_the_disk_before_they_take_their_places(tmp_path, monkeypatch):
    library, syncs = Library(tmp_path, 0), []
    monkeypatch.setattr(storage.ctypes, "CDLL", lambda *_, **__: library)
    monkeypatch.setattr(storage.os, "fsync", syncs.append)
    (tmp_path / "0").write_bytes(b"old")
    write_together(many(tmp_path))
    assert library.names == [{"0", *(f"{number}.{os.getpid()}.part" for number in range(20))}]
    assert len(syncs) == 1  # the directory
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        f"{number}": b"new" for number in range(20)
    }
    write_together(many(tmp_path)[:3])
    assert len(syncs) == 1 + 3 + 1  # few wait each
    monkeypatch.setattr(storage.ctypes, "CDLL", lambda *_, **__: object())
    write_together(many(tmp_path))
    assert len(syncs) == 5 + 20 + 1  # as do all where there is no such call


def test_many_files_of_which_the_disk_fails_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.ctypes, "CDLL", lambda *_, **__: Library(tmp_path, -1))
    (tmp_path / "7").write_bytes(b"old")
    with pytest.raises(OSError, match="Input/output error") as caught:
        write_together(many(tmp_path))
    assert caught.value.filename == str(tmp_path / "0")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("7", b"old")]


def test_unfinished_copies_have_names_of_their_own(tmp_path, monkeypatch):
    """Neither page.html and page.json nor two processes write into the same copy."""
    parts = []
    monkeypatch.setattr(Path, "replace", lambda part, path: parts.append(part.name))
    write_whole(tmp_path / "page.html", b"")
    write_whole(tmp_path / "page.json", b"")
    monkeypatch.setattr(storage.os, "getpid", lambda: 7)
    write_whole(tmp_path / "page.json", b"")
    assert len(set(parts)) == 3
    assert parts[2] == "page.json.7.part"


def test_parts_that_a_killed_process_left_are_removed_and_nothing_else(tmp_path):
    for name in ("page.html.7.part", ".tmpAbC123", "checkpoint.part", "page.html", ".lock"):
        (tmp_path / name).write_text("")
    (tmp_path / "directory.part").mkdir()
    remove_leftovers(tmp_path, tmp_path / "none")
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", ".lock", "directory.part"}


def test_links_are_replaced_or_refused_never_followed(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    link = tmp_path / "results.json"
    link.symlink_to(target)
    (tmp_path / f"results.json.{os.getpid()}.part").symlink_to(target)
    write_whole(link, b"new")
    assert (link.read_bytes(), target.read_bytes()) == (b"new", b"precious")
    assert not link.is_symlink()
    link.unlink()
    link.symlink_to(target)
    with pytest.raises(OSError, match=r"results\.json"):
        append(link, b"more")
    assert target.read_bytes() == b"precious"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="models is a link"):
        own_directory(tmp_path / "models")


def test_a_write_that_fails_names_the_file_and_leaves_no_part(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        save_values(tmp_path / "state.safetensors", ARRAYS, VALUES)
    assert caught.value.filename == str(tmp_path / "state.safetensors")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_equal_content_has_equal_bytes(tmp_path):
    for name in ("a", "b"):
        save_values(tmp_path / name, ARRAYS, VALUES)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_any_changed_byte_is_found(tmp_path):
    """The header's length, every byte of the header, of the checksum and of the arrays."""
    path = tmp_path / "state.safetensors"
    save_values(path, ARRAYS, VALUES)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for flip in (1, 32):
            changed = bytearray(whole)
            changed[place] ^= flip
            path.write_bytes(changed)
            try:
                arrays, values = load_values(path)
            except UserError as error:
                assert "state.safetensors is damaged" in str(error)  # noqa: PT017
            else:  # spaces around the header's JSON mean nothing
                assert values == VALUES
                assert all((arrays[name] == array).all() for name, array in ARRAYS.items())


def test_files_of_versions_without_checksums_are_read(tmp_path):
    path = tmp_path / "old.safetensors"
    path.write_bytes(storage.save(ARRAYS, metadata={"comity": json.dumps(VALUES)}))
    assert load_values(path)[1] == VALUES


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def foreign(path: Path) -> None:
    path.write_bytes(storage.save(ARRAYS))  # a safetensors file without our metadata


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
