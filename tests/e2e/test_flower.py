"""A rehearsal over Flower, with real processes, TLS and keyed SuperNodes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from comity.configuration import read_toml
from tests.federation.flower import flower
from tests.federation.processes import processes, until, with_path

pytestmark = flower

BANKS = Path(__file__).parents[2] / "examples" / "banks"


def test_a_rehearsal_over_flower_equals_the_simulation_and_ends(process):
    banks = process.home / "banks"
    shutil.copytree(BANKS, banks)
    federation = banks / "federation.toml"
    text = federation.read_text()
    federation.write_text(text.replace("rounds = 20\n", "rounds = 2\n"))
    assert federation.read_text() != text
    done = process(
        *("rehearse", federation, "--transport", "flower", "--out", "out", "--json"), seconds=900
    )
    assert not with_path(process.home)
    results = json.loads(done.stdout)
    assert results["transport"] == "flower"
    assert results["rounds"] == 2
    assert results["absences"] == []
    assert results["equal_to_simulation"] is True
    status = json.loads((process.home / "out" / "server" / "status.json").read_text())
    assert status["events"] == []
    assert {site["last_round"] for site in status["sites"].values()} == {4}, "all answered the end"
    log = (process.home / "out" / "server" / "flower" / "flower.log").read_text()
    assert "running on https://127.0.0.1:" in log
    registered = json.loads((process.home / "out/server/flower/registered.json").read_text())
    nodes = {name: node for name, (node, _) in registered.items()}
    assert sorted(nodes) == ["bank-a", "bank-b", "bank-c"]
    for node in nodes.values():
        assert f"Activated node_id={node}" in log


def write(home: Path, federation: dict[str, Any], sites: dict[str, dict[str, Any]]) -> Path:
    """Write the files of a federation of two rounds; return the federation file."""
    home.mkdir()
    values = {**federation, "rounds": 2, "sites": {name: {} for name in sites}}
    (home / "federation.toml").write_text(tomli_w.dumps(values))
    policy = {"statistics": ["size", "unsound", "validation", "gradients"]}
    for name, own in sites.items():
        site = {"name": name, "federation": "federation.toml", "policy": policy, **own}
        (home / f"{name}.toml").write_text(tomli_w.dumps(site))
    return home / "federation.toml"


def pair(home: Path, algorithm: str) -> Path:
    """Write a federation of two banks, or of two boats that look for treasure."""
    if algorithm == "treasure":
        learner = {"local_steps": 64, "learning_starts": 16, "batch_size": 16, "train_freq": 8}
        treasure = {"problem": "deep-sea-treasure", "algorithm": "fedpref", "dqn": learner}
        boats = {"boat-a": {"preference": [0.2, 0.8]}, "boat-b": {"preference": [0.7, 0.3]}}
        return write(home, treasure, boats)
    names = ("bank-b", "bank-c")
    banks = {n: {"preference": [0.7, 0.3], "data": str(BANKS / f"{n}.csv")} for n in names}
    problem = read_toml(BANKS / "federation.toml")["problem"]
    learner = {"local_steps": 3, "batch_size": 64}
    values = {"problem": problem, "algorithm": algorithm, "supervised": learner, "seed": 1}
    return write(home, values, banks)


@pytest.mark.parametrize("algorithm", ["fedavg", "fedcmoo", "ditto", "praffl", "treasure"])
def test_other_algorithms_over_flower_equal_the_simulation(algorithm, process):
    federation = pair(process.home / "pair", algorithm)
    done = process(
        *("rehearse", federation, "--transport", "flower", "--out", "out", "--json"), seconds=900
    )
    results = json.loads(done.stdout)
    assert results["absences"] == []
    assert results["equal_to_simulation"] is True
    assert not with_path(process.home)


@pytest.mark.parametrize("victim", ["flower-supernode", "flower-superlink"])
def test_a_killed_process_of_flower_changes_no_bit_but_by_absence(victim, tmp_path):
    """The transport starts it again; the simulation has the absences that the server noted."""
    federation = pair(tmp_path / "pair", "fedavg")
    text = federation.read_text().replace("rounds = 2", "rounds = 4")
    federation.write_text(f"{text}\n[server]\npatience = 240\n")
    command = ["rehearse", federation, "--transport", "flower", "--out", tmp_path / "out"]
    history = tmp_path / "out" / "server" / "history.jsonl"
    with subprocess.Popen(
        [sys.executable, "-m", "comity.cli", *command, "--json"], stdout=subprocess.PIPE
    ) as rehearsal:
        try:
            until(lambda: history.is_file() or rehearsal.poll() is not None, seconds=600)
            commands = {pid: command for pid, (_, command) in processes().items()}
            (killed, *_) = [
                pid
                for pid, command in commands.items()
                if f"/{victim} " in command
                and str(tmp_path) in command
                and "guard.py" not in command
            ]
            os.kill(killed, signal.SIGKILL)
            printed, _ = rehearsal.communicate(timeout=1500)
        finally:
            if rehearsal.poll() is None:
                rehearsal.terminate()
    assert rehearsal.returncode == 0
    results = json.loads(printed)
    assert results["equal_to_simulation"] is True
    assert not with_path(tmp_path)
