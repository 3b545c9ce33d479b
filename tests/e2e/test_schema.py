"""Three files and a public schema, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from comity.configuration import read_toml

BANKS = Path(__file__).parents[2] / "examples" / "banks"
TINY = ("--rounds", 1, "--set", "supervised.local_steps=2", "--set", "chunk=1")


def configuration(comity, *rows: str) -> None:
    """Write the banks' federation as the configuration of a simulation that holds some rows."""
    public = (BANKS / "federation.toml").read_text().partition("[sites")[0]
    preferences = [read_toml(BANKS / f"bank-{name}.toml")["preference"] for name in "abc"]
    public = public.replace('label = "income"', f'label = "income"\nrows = {list(rows)}')
    (comity.home / "my.toml").write_text(f"preferences = {preferences}\n{public}")
    for name in "abc":
        (comity.home / f"{name}.csv").write_bytes((BANKS / f"bank-{name}.csv").read_bytes())


def test_a_simulation_of_three_files(comity):
    configuration(comity, "a.csv", "b.csv", "c.csv")
    done = comity("run", "--config", "my.toml", *TINY, "--out", "r", "--json")
    results = json.loads(done.stdout)
    assert (results["problem"], results["clients"]) == ("banks", 3)
    assert results["samples"]["test"] == [300, 120, 60]
    header, row = (comity.home / "c.csv").read_text().splitlines()[:2]
    strange = row.replace(row.split(",")[1], "Circus", 1)
    (comity.home / "new.csv").write_text(f"{header}\n{row}\n{strange}\n")
    lines = comity("predict", "r", "--client", 2, "new.csv").stdout.splitlines()
    assert len(lines) == 3


def test_what_is_not_held_here_is_refused_before_anything_is_written(comity):
    configuration(comity, "a.csv", "", "c.csv")
    done = comity("run", "--config", "my.toml", *TINY, "--out", "r", code=2)
    assert "the rows of client 1 are not held here" in done.stderr
    assert not (comity.home / "r").exists()
