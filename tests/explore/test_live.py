"""A run is followed while it goes on, is killed, goes on again and ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from comity.explore.explorer import Explorer
from comity.runs.directory import Run

ARGUMENTS = [
    *("run", "deep-sea-treasure", "--clients", "2", "--rounds", "400"),
    *("--set", "dqn.local_steps=160", "--set", "test_episodes=1"),
]


def start(place, *arguments):
    """A run in the background that saves after every round, and ends after some on request."""
    code = (
        "import comity.runs.execute, comity.cli;"
        "comity.runs.execute._CHECKPOINT_SECONDS = 0.0;"
        "comity.cli.main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait(condition):
    for _ in range(2400):
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come so far")


@pytest.fixture
def going(tmp_path):
    """A run that goes on until it is killed."""
    process = start(tmp_path, *ARGUMENTS, "--out", tmp_path / "run")
    yield process
    process.kill()
    process.wait()


def test_a_run_is_followed_until_it_is_killed(going, tmp_path):
    path = tmp_path / "run"
    history = path / "history.jsonl"
    wait(lambda: history.is_file() and b"\n" in history.read_bytes())
    explorer = Explorer([path])
    document = explorer.document("run")
    state = document["state"]
    assert (state["state"], state["of"]) == ("running", 400)
    assert f"process {going.pid}" in state["holder"]
    assert document["verdict"] is None
    assert document["exports"] == []
    assert document["clients"]["name"] == ["0", "1"]
    seen = document["history"]["rounds"][-1]
    news = wait(lambda: (n := explorer.since("run", seen))["history"]["rounds"] and n)
    assert news["history"]["rounds"][0] == seen + 1
    assert news["history"]["mean"]["kept"][0] is not None
    assert news["state"]["done"] > state["done"]
    assert news["state"]["seconds_left"] > 0
    assert news["state"]["bytes_up"] > 0
    os.kill(going.pid, signal.SIGKILL)
    going.wait()
    state = explorer.since("run", seen)["state"]
    assert state["state"] == "interrupted"
    assert state["resume"] == f"comity resume {path}"
    assert state["seconds_left"] is None
    assert explorer.since("run", 10_000)["reset"]


def test_a_run_that_ends_becomes_a_finished_one(tmp_path):
    path = tmp_path / "run"
    arguments = [*ARGUMENTS[:5], "3", *ARGUMENTS[6:]]
    process = start(tmp_path, *arguments, "--out", path)
    try:
        wait(lambda: (path / "config.toml").is_file())
        explorer = Explorer([path])
        assert explorer.document("run")["state"]["state"] in ("running", "interrupted", "finished")
        wait(lambda: explorer.since("run", 0)["state"]["state"] == "finished")
    finally:
        process.wait()
    document = explorer.document("run")
    assert document["verdict"]["sentences"] == Run.open(path).results["verdict"]["sentences"]
    assert document["state"]["seconds"] > 0
    assert explorer.judge("run", 1, None)["made"] is False


def test_the_organisers_directory_shows_its_status(tmp_path, credit):
    path = tmp_path / "served"
    shutil.copytree(credit.path, path)
    (path / "results.json").unlink()
    (path / "federation.toml").write_text("")
    site = {"answered": 2, "bytes": 10, "seconds": 0.5, "last_seen": 3.0, "fault": "late"}
    status = {"exchange": "round 2: round", "updated": 4.0, "sites": {"Banco <b>": site}}
    (path / "status.json").write_text(json.dumps({**status, "events": ["Banco: late"]}))
    document = Explorer([path]).document("served")
    assert document["site_status"]["sites"] == [{"name": "Banco <b>", "rounds": 2, **site}]
    assert document["site_status"]["events"] == ["Banco: late"]
    assert document["clients"]["preference"] is None
    assert document["state"]["resume"].startswith(f"comity serve {path}/federation.toml")
    assert Explorer([path]).since("served", 0)["site_status"] == document["site_status"]


def test_a_comparison_that_goes_on_counts_its_runs(tmp_path, shelf):
    path = tmp_path / "comparison"
    shutil.copytree(shelf / "comparison", path)
    (path / "comparison.json").unlink()
    (path / "fedavg_interior" / "seed-2" / "results.json").unlink()
    document = Explorer([path]).document("comparison")
    state = document["state"]
    assert (state["state"], state["done"], state["of"]) == ("interrupted", 5, 6)
    assert document["entries"] == []
    whole = Explorer([shelf / "comparison"]).document("comparison")
    assert document.keys() == whole.keys()
