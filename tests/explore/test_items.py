"""What is found in the directories that were named."""

from __future__ import annotations

import os
import shutil

import pytest

from comity.core.locks import held, holder_of
from comity.errors import UserError
from comity.explore.explorer import Explorer
from comity.explore.items import Shelf, index
from comity.runs.cross import cross_models
from comity.runs.directory import Run


def test_a_directory_is_a_list_of_its_work(shelf):
    items = {item.id: item for item in Shelf([shelf]).items()}
    assert {id for id, item in items.items() if item.parent is None} == {
        "comparison", "credit", "search", "spanning",
    }  # fmt: skip
    assert items["comparison"].kind == "comparison"
    assert items["search"].kind == "search"
    children = [item for item in items.values() if item.parent == "comparison"]
    assert len(children) == 6
    assert "comparison~fedavg_interior~seed-1" in {child.id for child in children}


def test_the_index_says_what_each_is(shelf):
    lines = {line["id"]: line for line in index(Shelf([shelf]), "1")["items"]}
    line = lines["credit"]
    assert (line["problem"], line["algorithm"]) == ("german-credit-gender-dp", "fedpref")
    assert (line["state"], line["seed"], line["error"]) == ("finished", 1, None)
    assert lines["comparison"]["algorithm"] == "fedavg, fedpref, no-communication"


def test_one_named_item_is_shown_first(shelf):
    assert index(Shelf([shelf / "credit"]), "1")["start"] == "credit"
    assert index(Shelf([shelf / "credit", shelf / "search"]), "1")["start"] is None
    assert index(Shelf([shelf]), "1")["start"] is None


def test_equal_names_have_different_identifiers(credit, tmp_path):
    paths = [tmp_path / name / "run" for name in "ab"]
    for path in paths:
        shutil.copytree(credit.path, path)
    ids = [item.id for item in Shelf(paths).items()]
    assert ids == ["run", "run-2"]


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_what_is_no_work_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=name):
        Shelf([tmp_path / name])


def test_links_are_not_followed(credit, tmp_path):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    shutil.copytree(credit.path, shelf / "real")
    (shelf / "link").symlink_to(credit.path)
    assert [item.id for item in Shelf([shelf]).items()] == ["real"]
    results = shelf / "real" / "results.json"
    results.unlink()
    results.symlink_to(credit.path / "results.json")
    (line,) = index(Shelf([shelf]), "1")["items"]
    assert line["state"] == "damaged"
    assert "symbolic link" in line["error"]


def test_states_are_proved_by_files_and_locks(credit, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(credit.path, path)
    (item,) = Shelf([path]).items()
    assert item.state() == "finished"
    (path / "results.json").unlink()
    assert item.state() == "interrupted"
    with held(path):
        assert item.state() == "running"
        assert f"process {os.getpid()}" in item.holder
    assert item.state() == "interrupted"


def test_a_lock_that_a_killed_process_left_is_nobodys(tmp_path):
    assert holder_of(tmp_path) is None
    (tmp_path / ".lock").write_text("{}")
    assert holder_of(tmp_path) is None
    with held(tmp_path):  # looking at a lock takes it from nobody
        assert holder_of(tmp_path) is not None


def test_a_damaged_configuration_is_named(credit, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(credit.path, path)
    (path / "config.toml").write_text("a = [")
    (line,) = index(Shelf([path]), "1")["items"]
    assert line["state"] == "damaged"
    assert "config.toml" in line["error"]


def test_files_of_another_form_are_named(credit, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(credit.path, path)
    (path / "cross.json").write_text('{"clients": 3}')
    with pytest.raises(UserError, match=f"{path} is damaged, or of another version"):
        Explorer([path]).document("run")


def test_a_document_is_made_again_when_something_was_added(credit, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(credit.path, path)
    explorer = Explorer([path])
    assert explorer.document("run")["cross"] is None
    assert explorer.document("run") is explorer.document("run")
    run = Run.open(path)
    run.save_json("cross.json", cross_models(run))
    cross = explorer.document("run")["cross"]
    assert cross["by_client"][1][1] == pytest.approx(
        run.results["per_client"][1]["scalarised"], abs=1e-5
    )
