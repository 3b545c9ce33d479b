"""Directories: names that stay under runs/, entries that never share one, half-made ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.core.locks import LOCK, held
from comity.errors import UserError
from comity.runs.places import check_same, entry_names, free_path, make_directory


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_any_name_is_one_directory_under_runs(parts):
    path = free_path(*parts)
    assert path.parent == Path("runs")
    assert path.name not in ("", ".", "..")
    assert path.name.isprintable()
    assert len(path.name.encode()) < 255


def test_names_are_kept_as_far_as_they_can_be():
    assert free_path("mine:problem", "fedavg+ft", "seed3") == Path(
        "runs/mine-problem-fedavg+ft-seed3"
    )
    assert free_path("../../escape", "seed1").name == "escape-seed1"
    assert free_path("/etc/passwd").name == "etc_passwd"
    assert free_path("x\0y").name == "x_y"


@given(st.lists(st.text(), unique=True, max_size=6))
def test_different_entries_have_different_directories(entries):
    names = entry_names(entries)
    assert list(names) == entries
    assert len({name.casefold() for name in names.values()}) == len(entries)
    assert all("/" not in name and name not in ("", ".", "..") for name in names.values())


def test_entries_that_differ_in_punctuation_do_not_share_a_run():
    entries = ["fedpref[threshold=2.5%]/dirichlet", "fedpref[threshold=2.5]/dirichlet"]
    assert entry_names(entries) == {
        entries[0]: "fedpref_threshold=2.5_dirichlet",
        entries[1]: "fedpref_threshold=2.5_dirichlet-2",
    }


def test_a_half_made_directory_can_be_made_again(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    (path / "config.toml.77.part").write_text("half")
    (path / LOCK).write_text("of a killed process")
    make_directory(path, "config.toml", b"whole", "run")
    assert (path / "config.toml").read_bytes() == b"whole"
    with pytest.raises(UserError, match=r"exists already.*interrupted run: comity resume"):
        make_directory(path, "config.toml", b"other", "run")
    assert (path / "config.toml").read_bytes() == b"whole"


def test_two_makers_do_not_write_over_each_other(tmp_path):
    with held(tmp_path), pytest.raises(UserError, match="is in use: process"):
        make_directory(tmp_path, "config.toml", b"other", "run")
    assert list(tmp_path.iterdir()) == []


def test_impossible_places_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("file/run", "x" * 300, "a\0b"):
        with pytest.raises(UserError, match="out: cannot create"):
            make_directory(tmp_path / name, "config.toml", b"", "run")


def test_another_configuration_is_refused_and_another_version_is_not(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("seed = 1\nold = 3\n[dqn]\ngamma = 0.5\n")
    check_same(file, "seed = 1\nnew = 4\n[dqn]\ngamma = 0.5\nmore = 2\n")
    with pytest.raises(UserError, match=r"dqn\.gamma is 0\.5, it was 0\.9 in its plan"):
        check_same(file, "seed = 1\n[dqn]\ngamma = 0.9\n")
