"""The example with ten satellites: files that fit together, and the commands of `make space`.

`tests/test_docs.py` runs the commands of the page.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from comity.configuration import configure
from comity.links.contacts import read_plan
from comity.links.orbits import Passes, plan_from_orbits

ROOT = Path(__file__).parents[2]
SPACE = ROOT / "examples" / "space"
PREFERENCES = {"atlas": [0.9, 0.1], "granary": [0.5, 0.5], "watershed": [0.1, 0.9]}


def test_the_contact_plan_is_that_of_the_orbits():
    pytest.importorskip("skyfield")
    shipped = read_plan(SPACE / "contacts.csv")
    again = plan_from_orbits(SPACE / "orbits.tle", SPACE / "stations.csv", Passes())
    assert again.warnings == ()

    def passes(plan):
        ordered = sorted(plan.contacts, key=lambda c: (c.source, c.target, c.start))
        return [(c.source, c.target, c.rate) for c in ordered], [c.start for c in ordered]

    (nodes, starts), (same, others) = passes(shipped), passes(again.plan)
    assert nodes == same
    np.testing.assert_allclose(starts, others, atol=1000)  # versions of skyfield: below 1 s


def test_passes_per_day_are_those_of_such_orbits():
    plan = read_plan(SPACE / "contacts.csv")
    assert 2.9 < plan.days <= 3

    def per_day(operator, station):
        down = [c for c in plan.contacts if c.source.startswith(operator) and c.target == station]
        satellites = {name for name in plan.nodes if name.startswith(operator)}
        return len(down) / len(satellites) / 3

    for operator in ("atlas/", "granary/"):
        assert 9 < per_day(operator, "ground/svalbard") < 14
        assert 2 < per_day(operator, "ground/luxembourg") < 7
    assert per_day("watershed/", "ground/svalbard") == 0
    assert 2 < per_day("watershed/", "ground/luxembourg") < 7
    seconds = [(c.end - c.start) / 1000 for c in plan.contacts]
    assert max(seconds) < 12 * 60  # at 600 km and 10 degrees


def test_satellites_of_an_operator_want_the_same():
    configuration = configure(
        {
            "problem": "statlog-landsat",
            "links": str(SPACE / "contacts.csv"),
            "preferences": str(SPACE / "preferences.csv"),
        }
    )
    assert configuration.clients == 10
    operators = [name.partition("/")[0] for name in configuration.names]
    assert sorted(set(operators)) == sorted(PREFERENCES)
    expected = [PREFERENCES[operator] for operator in operators]
    np.testing.assert_allclose(configuration.get_preferences(), expected)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_space_runs_the_commands_of_the_page():
    page = (ROOT / "docs" / "thin-links.md").read_text()
    (section,) = re.findall(r"^## Ten satellites$.*?(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    shown = [set(shlex.split(line)) for line in re.findall(r"^comity .*$", section, re.MULTILINE)]
    dry = ["make", "--dry-run", "--always-make", "space"]
    printed = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in printed.splitlines() if re.match(r"\S*bin/comity ", line)]
    made = [set(re.sub(r"\S*bin/comity", "comity", li).split()) for li in lines]
    assert [{word.removeprefix("runs/") for word in words} for words in made] == shown
    assert len(shown) == 4
