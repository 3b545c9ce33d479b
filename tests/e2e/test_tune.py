from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import comity as library
from comity.configuration import read_toml

SHORT = [
    *("german-credit-gender-dp", "--clients", "3", "--rounds", "2"),
    *("--set", "supervised.local_steps=3"),
]
SPACE = "supervised.learning_rate = { low = 1e-3, high = 0.1, log = true }\nmu = [0.01, 0.1]\n"


def test_a_tuning_ends_in_settings_for_run_and_compare(comity):
    (comity.home / "space.toml").write_text(SPACE)
    done = comity(
        *("tune", *SHORT, "--algorithm", "fedprox", "--over", "space.toml"),
        *("--trials", 3, "--seeds", 1, "--workers", 1, "--out", "t"),
    )
    assert done.stdout.startswith("Chosen: trial")
    assert "0 (as it was)" in done.stdout
    tuning = json.loads(comity("report", "t", "--json").stdout)
    assert [row["trial"] for row in tuning["trials"]] == [0, 1, 2]
    assert tuning["seeds"] == [1001]
    names = {path.name for path in (comity.home / "t").iterdir()}
    assert {"best.toml", "report.html", "trials.png", "settings.png", "tuning.json"} <= names
    compared = comity(
        *("compare", *SHORT, "--seeds", 1, "--out", "c", "--workers", 1),
        *("--algorithms", "fedavg,fedprox[tuned=t]"),
    )
    assert "with the same budget of 3 trials × 1 seed: fedprox." in compared.stdout
    assert "Not tuned: fedavg." in compared.stdout
    page = (comity.home / "c" / "report.html").read_text()
    assert "<h2>Tuning</h2>" in page
    table = json.loads((comity.home / "c" / "comparison.json").read_text())
    assert (table["equal_budgets"], table["tuned"][0]["trials"]) == (True, 3)


def test_a_killed_tuning_goes_on_and_ends_with_the_same_bytes(comity):
    (comity.home / "space.toml").write_text(SPACE)
    command = [
        *("tune", *SHORT, "--algorithm", "fedprox", "--over", "space.toml"),
        *("--trials", 4, "--batch", 2, "--seeds", 2, "--workers", 1, "--out", "killed"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "comity.cli", *map(str, command)],
        cwd=comity.home,
        env={**os.environ, "COLUMNS": "200"},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while not (comity.home / "killed" / "trial-001").is_dir():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (comity.home / "killed" / "tuning.json").exists()
    comity("resume", "killed", "--workers", 1)
    library.tune(
        "german-credit-gender-dp",
        algorithm="fedprox",
        over=comity.home / "space.toml",
        out=comity.home / "whole",
        trials=4,
        batch=2,
        seeds=2,
        clients=3,
        rounds=2,
        supervised={"local_steps": 3},
    )
    for name in ("tuning.json", "proposals.json"):
        whole = (comity.home / "whole" / name).read_bytes()
        assert (comity.home / "killed" / name).read_bytes() == whole, name
    best = [read_toml(comity.home / name / "best.toml") for name in ("killed", "whole")]
    assert best[0] == best[1]


def test_mistakes_are_one_line(comity):
    (comity.home / "space.toml").write_text("nu = [1]\ndqn.learning_rate = [-1.0]\n")
    command = ("tune", "deep-sea-treasure", "--algorithm", "fedprox", "--out", "t")
    done = comity(*command, "--over", "space.toml", code=2)
    assert "space.toml: unknown setting of fedprox 'nu'" in done.stderr
    assert not (comity.home / "t").exists()
