"""Thin links on the command line: contacts, plan, run, resume, compare."""

from __future__ import annotations

import json

import pytest

from tests.links.plans import passes, plan
from tests.links.test_orbits import FIELDS, SATELLITES, STATIONS

SHORT = ("german-credit-gender-dp", "--links", "plan.csv", "--collect", "count:2")
STEPS = ("--set", "supervised.local_steps=2", "--set", "links.work=10m")


@pytest.fixture
def contacts(comity):
    rows = [
        passes("a/1", (0, 5000)),
        passes("a/2", (0, 3000), station="ground/h"),
        passes("b/1", (2000, 5000), station="ground/i"),
    ]
    (comity.home / "plan.csv").write_text(plan(*rows).to_csv())
    return comity


def test_a_plan_from_orbits(comity):
    pytest.importorskip("skyfield")
    (comity.home / "orbits.csv").write_text("\n".join([FIELDS, *SATELLITES]))
    (comity.home / "stations.csv").write_text(STATIONS)
    made = ("orbits.csv", "stations.csv", "--days", 1, "--out", "contacts.csv")
    text = comity("contacts", *made, "--start", "2026-04-01", "--between")
    assert "contacts.csv: " in text.stdout
    assert "warning: elements of 3 of 3 satellites" in text.stderr
    again = comity("contacts", *made, code=2)
    assert "contacts.csv exists already" in again.stderr
    planned = comity("plan", "german-credit-gender-dp", "--links", "contacts.csv", "--json")
    results = json.loads(planned.stdout)
    assert [client["name"] for client in results["clients"]] == ["north/1", "north/2", "south/1"]
    assert results["rounds"] >= 1


def test_a_plan_trains_nothing_and_a_run_keeps_to_it(contacts):
    shown = contacts("plan", *SHORT, "--set", "links.work=10m", "--out", "plan.png")
    assert "updates per client: least, median, most" in shown.stdout
    assert "are the limit: messages of no size would give" in shown.stdout
    assert "▼" in shown.stdout
    assert (contacts.home / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert not (contacts.home / "runs").exists()
    options = (*SHORT, "--set", "links.work=10m", "--encoding", "int8")
    planned = json.loads(contacts("plan", *options, "--json").stdout)
    run = contacts("run", *SHORT, *STEPS, "--encoding", "int8", "--out", "run", "--json")
    links = json.loads(run.stdout)["links"]
    assert links["rounds"] == planned["rounds"]
    assert links["updates"] == planned["updates"]
    assert (contacts.home / "run" / "contacts.png").is_file()
    again = contacts("run", "--config", "run/config.toml", "--out", "again")
    assert again.returncode == 0
    results = [(contacts.home / name / "results.json").read_bytes() for name in ("run", "again")]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--rounds", "3"), ["the contact plan decides", "links.days"]),
        (("--clients", "4"), ["clients = 4", "has 3", "a/1, a/2, b/1"]),
        (("--algorithm", "fedcmoo"), ["fedcmoo asks clients twice per round"]),
        (("--collect", "count:4"), ["links.collect", "count:4"]),
    ],
)
def test_what_does_not_fit_is_one_line(contacts, arguments, parts):
    done = contacts("run", *SHORT, *arguments, code=2)
    assert done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


def test_a_rule_without_a_plan_is_refused(comity):
    done = comity("run", "german-credit-gender-dp", "--collect", "all", code=2)
    assert "name a contact plan with --links" in done.stderr
    assert "links.contacts is missing" in comity("plan", "adult-gender-dp", code=2).stderr
