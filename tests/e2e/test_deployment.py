"""Federations of real processes over gRPC, on this machine.

Most parties are forked from a process that has imported Comity (`benchmarks.parties`): a start
takes a second then. The rehearsal is started as a user does it.
"""

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
from benchmarks.deployment import killed
from benchmarks.parties import BANKS, Parties, banks, call, equal, federation, simulation

from comity.cli import deploy
from comity.configuration import read_toml
from comity.errors import UserError
from comity.federation.initial_model import initial_fleet
from comity.federation.keys import make_keys
from comity.runs.directory import Run
from comity.runs.serve import absences
from tests.federation.processes import until


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def edit(path: Path, **values: Any) -> None:
    """Change values of a TOML file."""
    path.write_text(tomli_w.dumps({**read_toml(path), **values}))


# -- as a user does it ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    """The example with two rounds and without bank-c's files, rehearsed; home and output."""
    home = tmp_path_factory.mktemp("rehearsal")
    shutil.copytree(BANKS, home / "banks", ignore=shutil.ignore_patterns("bank-c.*"))
    edit(home / "banks" / "federation.toml", rounds=2)
    done = subprocess.run(
        [sys.executable, "-m", "comity.cli", "rehearse", "banks/federation.toml", "--json"],
        cwd=home,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "bank-c: there is no bank-c.toml beside banks/federation.toml; random" in done.stderr
    return home, json.loads(done.stdout)


def test_a_rehearsal_equals_the_simulation(rehearsal):
    home, printed = rehearsal
    assert printed["equal_to_simulation"] is True
    assert printed["equal"] == {"bank-a": True, "bank-b": True, "bank-c": True}
    assert printed["absences"] == []
    assert printed["rounds"] == 2
    assert len(printed["per_client"]) == 3
    run = Path(printed["run"])
    assert run.parent.parent == home
    (own,) = json.loads((run / "bank-b" / "results.json").read_text())["per_client"]
    simulated = printed["per_client"][1]
    assert own == {name: simulated[name] for name in own}
    assert {"client", "preference", "objectives", "scalarised"} <= set(own)


def test_random_rows_stand_in_for_a_site_without_a_file(rehearsal):
    run = Path(rehearsal[1]["run"])
    assert len((run / "stand-ins" / "bank-c.csv").read_text().splitlines()) == 301
    assert not (run / "stand-ins" / "bank-a.csv").exists()


def test_the_organiser_sees_nothing_private(rehearsal):
    run = Path(rehearsal[1]["run"])
    files = [path for path in (run / "server").rglob("*") if path.is_file()]
    assert {"status.json", "status.html", "results.json"} <= {path.name for path in files}
    seen = b"".join(path.read_bytes() for path in [*files, run / "server.log"])
    for private in (b".csv", b"accuracy", b"0.9, 0.1", b"0.7, 0.3", b"trained"):
        assert private not in seen
    assert b"2 of 2 rounds" in (run / "server.log").read_bytes()


def test_a_site_measures_its_groups_and_keeps_the_measures(rehearsal):
    run = Path(rehearsal[1]["run"])
    groups = json.loads((run / "bank-b" / "groups.json").read_text())
    (entry,) = groups["clients"]
    assert entry["name"] == "bank-b"
    assert entry["all"] == groups["together"]["all"]
    assert list(entry["attributes"]["sex"]["values"]) == ["Female", "Male"]
    assert not (run / "server" / "groups.json").exists()
    (own,) = json.loads((run / "bank-b" / "results.json").read_text())["per_client"]
    gap = entry["attributes"]["sex"]["demographic_parity_difference"]["value"]
    assert own["gaps"]["sex"]["demographic_parity"] == gap


def test_a_site_keeps_its_files_to_itself(rehearsal):
    site = Path(rehearsal[1]["run"]) / "bank-a"
    modes = {path: path.stat().st_mode & 0o777 for path in [site, *site.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert not (site / "site.log").exists()  # nothing failed


def test_the_directory_of_a_site_is_that_of_a_run(rehearsal):
    run = Path(rehearsal[1]["run"])
    code, text = call(run, "predict", "bank-b", BANKS / "bank-c.csv", "--json")
    assert code == 0, text
    answers = json.loads(text)
    assert (answers["client"], len(answers["answers"])) == (1, 300)
    code, text = call(run, "export", "bank-b", "model.safetensors")
    assert code == 0, text
    assert (run / "model.safetensors").is_file()
    code, text = call(run, "report", "bank-b", "--json")
    assert code == 0, text
    assert (run / "bank-b" / "report.html").is_file()
    code, text = call(run, "audit", "bank-b", "--json")
    assert code == 0, text
    exchanges = [message["exchange"] for message in json.loads(text)["messages"]]
    assert exchanges == ["hello", "round", "round", "finish", "end"]
    code, text = call(run, "predict", "bank-b", BANKS / "bank-c.csv", "--client", 0)
    assert (code, "has no such client; it has 1" in text) == (2, True)


def test_the_directory_of_the_organiser_says_who_took_part(rehearsal):
    run = Path(rehearsal[1]["run"])
    code, text = call(run, "report", "server")
    assert code == 0, text
    assert "fedpref on banks among 3 sites" in text
    assert "Models and scores are at the sites." in " ".join(text.split())
    code, text = call(run, "predict", "server", BANKS / "bank-c.csv")
    assert (code, "models are at the sites" in text) == (2, True)
    command = ("serve", "federation.toml", "--key", "server.key", "--out", "server")
    code, text = call(run, *command)
    assert (code, "this federation is over" in text) == (2, True)
    assert "Traceback" not in text


# -- the simulation's bits -----------------------------------------------------------------

TREASURE = {
    "problem": "deep-sea-treasure",
    "algorithm": "fedpref",
    "dqn": {"local_steps": 64, "learning_starts": 16, "batch_size": 16, "train_freq": 8},
    "validation_episodes": 1,
    "test_episodes": 1,
}


def start_federation(home: Path, name: str) -> Parties:
    """Return the parties of a federation of two sites and two rounds."""
    if name == "treasure":
        sites = {f"boat-{i}": {"preference": [0.2 + 0.5 * i, 0.8 - 0.5 * i]} for i in range(2)}
        return Parties(federation(home, {**TREASURE, "rounds": 2, "seed": 1}, sites))
    supervised = {"local_steps": 3, "batch_size": 64}
    file = banks(home, 2, 2, algorithm=name, supervised=supervised)
    for site in file.names:
        allowed = ["size", "unsound", "validation", "gradients"]
        edit(home / f"{site}.toml", policy={"statistics": allowed})
    return Parties(file)


@pytest.mark.parametrize(
    "name",
    [
        *("fedcmoo", "treasure"),  # a survey, and an environment
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("fedavg", "ditto", "praffl")),
    ],
)
def test_real_processes_equal_the_simulation(name, tmp_path):
    with start_federation(tmp_path / "home", name) as parties:
        parties.start()
        assert set(parties.wait(seconds=300).values()) == {0}, parties.log("server")
        kept, last, _ = simulation(parties.file)
        assert equal(parties.file, kept, last)
        configuration = Run.open(tmp_path / "home" / parties.file.names[0]).configuration
        start = initial_fleet(configuration, 2)
        assert any((start[tensor] != last[tensor]).any() for tensor in start)
        absent = simulation(parties.file, absences=[[1, 0, "round"]])
        assert not equal(parties.file, *absent[:2])  # an absence changes bits


@pytest.mark.parametrize("seed", [4, 31])
def test_a_kill_at_a_random_moment_changes_nothing(seed, tmp_path):
    """Seed 4 kills a site, seed 31 the server, each soon after a round in the middle."""
    found = killed(tmp_path / "home", seed)
    assert found["killed"] == {4: "site-0", 31: "server"}[seed]
    assert set(found["codes"].values()) == {0}
    assert found["absences"] == []
    kept, last, _ = simulation(found["file"])
    assert equal(found["file"], kept, last)


# -- refusals ------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    """The parties of two banks, not started."""
    with Parties(banks(tmp_path / "home", 2, 2)) as parties:
        yield parties


def own_federation(parties: Parties, **values: Any) -> None:
    """Give the first site a federation file of its own."""
    other = parties.home / "other.toml"
    shutil.copy(parties.file.path, other)
    edit(other, **values)
    edit(parties.home / "site-0.toml", federation="other.toml")


def test_another_federation_file_is_refused(pair):
    own_federation(pair, rounds=200)
    pair.start("server", "site-0")
    assert pair.wait("site-0", seconds=120) == {"site-0": 3}
    assert "the server runs another federation than this file's" in pair.log("site-0")
    assert "Traceback" not in pair.log("site-0") + pair.log("server")
    assert "another federation" in pair.log("server")


def test_a_foreign_key_is_refused(pair):
    make_keys("site-0", pair.home / "foreign")
    edit(pair.home / "site-0.toml", key="foreign/site-0.key")
    pair.start("site-0")
    assert pair.wait("site-0", seconds=120) == {"site-0": 2}
    assert "the federation file has another certificate of 'site-0'" in pair.log("site-0")
    text = (pair.home / "foreign" / "site-0.crt").read_text()
    sites = read_toml(pair.file.path)["sites"]
    own_federation(pair, sites={**sites, "site-0": {"certificate": text}})
    pair.start("server", "site-0")
    assert pair.wait("site-0", seconds=120) == {"site-0": 3}
    assert "refuses this site's certificate" in pair.log("site-0")
    assert "Traceback" not in pair.log("site-0") + pair.log("server")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)],
)
def test_an_interrupted_party_says_how_to_go_on(number, code, pair):
    pair.start("server", "site-0")
    until(lambda: "waiting for" in pair.log("site-0"))
    until(lambda: (pair.home / "server" / "config.toml").is_file())
    second = Parties(pair.file)
    second.start("site-0")
    assert second.wait("site-0", seconds=60) == {"site-0": 2}
    assert "site-0 is in use: process" in pair.log("site-0")
    for party, command in (("site-0", "join site-0.toml"), ("server", "serve federation.toml")):
        pair.signal(party, number)
        assert pair.wait(party, seconds=60) == {party: code}
        assert f"interrupted; go on with: comity {command}" in pair.log(party)
        assert "Traceback" not in pair.log(party)
    pair.start()
    assert set(pair.wait(seconds=300).values()) == {0}
    assert absences(Run.open(pair.home / "server")) == []
    assert equal(pair.file, *simulation(pair.file)[:2])


# -- check ---------------------------------------------------------------------------------

NO_SOCKETS = """
import socket
def refuse(*arguments, **options):
    raise AssertionError("a socket was opened")
socket.socket.__init__ = refuse
from comity.cli import main
main()
"""


@pytest.fixture
def bank(tmp_path):
    """The example's files, for changes."""
    shutil.copytree(BANKS, tmp_path / "banks")
    return tmp_path / "banks"


FAULTS = {
    "column": (lambda text: text.replace("hours-per-week", "hours", 1), "hours-per-week"),
    "category": (lambda text: text.replace(",Female,", ",Fmale,", 1), "Fmale"),
    "number": (lambda text: text.replace("\n", "\nold", 1), "age"),
    "group": (lambda text: text.replace(",Female,", ",Male,"), "Female"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_a_fault_before_anything_is_sent(fault, bank, capsys):
    change, named = FAULTS[fault]
    data = bank / "bank-b.csv"
    data.write_text(change(data.read_text()))
    with pytest.raises(UserError, match=f"do not fit the schema.*{named}"):
        deploy.check(bank / "bank-b.toml", as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert any(named in finding for finding in found["findings"])
    assert not (bank / "bank-b").exists()


def test_check_opens_no_socket(bank):
    def check(site: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", NO_SOCKETS, "check", bank / f"{site}.toml"],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    good = check("bank-a")
    assert good.returncode == 0, good.stderr
    assert "The rows fit the schema" in " ".join(good.stdout.split())
    assert "17,156 bytes" in good.stdout
    assert not (bank / "bank-a").exists()
