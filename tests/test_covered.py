from __future__ import annotations

from coverage import Coverage

from tests import covered


def test_rooms_have_their_share_of_lines_and_named_ones_what_is_missed():
    found = {"core": (10, {"core/a.py": [3, 7], "core/b.py": []}), "errors.py": (2, {})}
    core, missed, errors, everything = covered.table(found, ["core"])
    assert core.split() == ["core", "10", "lines", "2", "missed", "80.00", "%"]
    assert missed.split(": ") == ["    core/a.py", "3, 7"]
    assert errors.split()[-2:] == ["100.00", "%"]
    assert everything.split() == ["all", "12", "lines", "2", "missed", "83.33", "%"]


def test_lines_that_nothing_executed_are_missed(tmp_path, monkeypatch):
    for name, text in {"room/a.py": "x = 1\ny = 2\n", "room/b.py": "", "c.py": "z = 3\n"}.items():
        (tmp_path / "room").mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(covered, "HOME", tmp_path)
    coverage = Coverage(data_file=str(tmp_path / "none"), config_file=False)
    assert covered.rooms(coverage) == {
        "room": (2, {"room/a.py": [1, 2], "room/b.py": []}),
        "c.py": (1, {"c.py": [1]}),
    }
