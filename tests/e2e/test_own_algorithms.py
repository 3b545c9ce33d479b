"""An algorithm in a file of the user's, through every command."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from comity.datasets.shipped import shipped
from tests.classics import HOME

SHORT = ["--clients", "3", "--rounds", "2", "--set", "supervised.local_steps=3"]
DATA = ["german-credit-gender-dp", *SHORT, "--set", "supervised.optimiser=sgd"]
ALIKE = """
import comity

@comity.algorithm("alike", title="A mean", paper="none", place="global model", method="mean",
                  communication="the model, both ways")
class Alike(comity.Algorithm):
    personal = False
    shared_update = ("*",)
    scale: float = 1.0

    def mix(self, round):
        if self.scale == 13:
            raise SystemExit("stopped on purpose")
        return {"*": comity.Mixing.shared(round.sizes, receivers=round.clients)}
"""


@pytest.fixture
def home(comity, monkeypatch):
    """The working directory of the command line, with two modules in it and no other `classics`."""
    monkeypatch.delitem(sys.modules, "classics")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(HOME)])
    shutil.copy(HOME / "classics.py", comity.home)
    (comity.home / "mine.py").write_text(ALIKE)
    return comity.home


def test_run_report_predict_and_export(comity, home):
    options = ["--set", "own-feddyn.alpha=0.5", "--set", "chunk=1", "--json"]
    done = comity("run", *DATA, "--algorithm", "classics:FedDyn", *options, "--workers", 2)
    results = json.loads(done.stdout)
    assert results["algorithm"] == "classics:FedDyn"
    path = home / "runs" / "german-credit-gender-dp-classics-FedDyn-seed1"
    text = (path / "config.toml").read_text()
    assert 'algorithm = "classics:FedDyn"' in text
    assert "[own-feddyn]\nalpha = 0.5" in text
    comity("report", path)
    assert "own-feddyn" in (path / "report.html").read_text()
    comity("export", path, "model.safetensors", "--client", 1)
    columns = shipped("german-credit")
    rows = zip(*(cells[:4] for cells in columns.values()), strict=True)
    (home / "rows.csv").write_text("\n".join(map(",".join, [list(columns), *rows])))
    assert len(comity("predict", path, "--client", 1, "rows.csv").stdout.splitlines()) == 5
    # the same file again gives the same bits, with one worker too
    comity("run", "--config", path / "config.toml", "--out", "again", "--workers", 1)
    assert (home / "again" / "results.json").read_bytes() == (path / "results.json").read_bytes()
    # without its module a run is refused in one line
    (home / "classics.py").unlink()
    done = comity("report", path, code=2)
    assert "algorithm 'classics:FedDyn': there is no module 'classics'" in done.stderr
    assert "change to its directory, or install it" in done.stderr


def test_a_comparison_of_own_and_shipped_algorithms(comity, home):
    entries = "fedavg,mine:Alike,mine:Alike+ft[scale=2],mine:Alike+confree,classics:BySteps"
    done = comity(
        *("compare", *DATA, "--algorithms", entries, "--seeds", 1, "--out", "c", "--json"),
        *("--set", "alike.scale=3", "--workers", 2),
    )
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(rows) == entries.split(",")
    # with one size for all it is fedavg, and with equal steps so is the mean by steps
    for entry in ("mine:Alike", "classics:BySteps"):
        (gain,) = rows[entry]["paired"]["fedavg"]["each"]
        assert gain == pytest.approx(0.0, abs=1e-5)
    assert rows["mine:Alike+confree"]["host"] == "mine:Alike"
    settings = {}
    for entry, row in rows.items():
        (place,) = row["runs"]
        assert ":" not in place
        settings[entry] = (home / "c" / place / "config.toml").read_text()
    assert "[alike]\nscale = 3.0" in settings["mine:Alike"]
    assert "[alike]\nscale = 2.0" in settings["mine:Alike+ft[scale=2]"]
    assert "alike" not in settings["fedavg"].replace("mine:Alike", "")
    assert "mine:Alike+confree" in comity("report", "c").stdout


def test_an_interrupted_run_goes_on(comity, home):
    """The first run ends in mix; the file is mended, and the run resumed."""
    words = ["--algorithm", "mine:Alike", "--set", "alike.scale=13"]
    done = comity("run", *DATA, *words, "--out", "r", code=None)
    assert done.returncode == 1
    (home / "mine.py").write_text(ALIKE.replace("== 13", "== 14"))
    comity("resume", "r")
    comity("run", *DATA, *words, "--out", "whole")
    assert (home / "r" / "results.json").read_bytes() == (
        home / "whole" / "results.json"
    ).read_bytes()


def test_a_search_trains_candidates_with_it(comity, home):
    comity(
        *("search", "german-credit-gender-dp", "--algorithm", "mine:Alike", "--out", "s"),
        *("--iterations", 1, "--candidates", 2, "--rounds", 1, "--clients", 2, "--no-control"),
        *("--set", "supervised.local_steps=2", "--set", "alike.scale=2"),
    )
    text = (home / "s" / "config.toml").read_text()
    assert 'algorithm = "mine:Alike"' in text
    assert "[alike]\nscale = 2.0" in text
    done = comity("search", "german-credit-gender-dp", "--algorithm", "classics:FedDyn", code=2)
    assert "algorithm = classics:FedDyn: in a search the server evaluates" in done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:Other", "algorithm 'mine:Other': module mine has no 'Other'."),
        ("mine:comity", "algorithm 'mine:comity' is a module, not a class of comity.Algorithm."),
        ("theirs:Alike", "algorithm 'theirs:Alike': there is no module 'theirs'"),
        ("mine", "unknown algorithm 'mine'"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(comity, home, name, message):
    for words in (["run", *DATA, "--algorithm", name], ["compare", *DATA, "--algorithms", name]):
        done = comity(*words, code=2)
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (home / "runs").exists()
