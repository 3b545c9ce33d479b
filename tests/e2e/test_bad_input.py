"""Bad input: one line that names the field, exit code 2, nothing half-written."""

from __future__ import annotations

import subprocess
import sys

import pytest

from comity.cli import main
from tests.e2e.conftest import TINY

CASES = {
    "unknown problem": (["run", "deep-see"], ["deep-see", "deep-sea-treasure"]),
    "unknown algorithm": (["run", "deep-sea-treasure", "--algorithm", "fedx"], ["fedx", "fedavg"]),
    "unknown setting": (
        ["run", "deep-sea-treasure", "--set", "fedpref.topr=1"],
        ["topr", "top_r", "minimum_similarity"],
    ),
    "setting of another algorithm": (
        ["run", "deep-sea-treasure", "--set", "cfl.patience=1"],
        ["cfl", "fedpref"],
    ),
    "impossible setting": (
        ["run", "deep-sea-treasure", "--set", "fedpref.top_r=7"],
        ["fedpref.top_r = 7"],
    ),
    "negative clients": (["run", "deep-sea-treasure", "--clients", "-3"], ["clients = -3"]),
    "negative rounds": (["run", "deep-sea-treasure", "--rounds", "-3"], ["rounds = -3"]),
    "no workers": (["run", "deep-sea-treasure", *TINY, "--workers", "0"], ["workers = 0"]),
    "not a number": (["run", "deep-sea-treasure", "--clients", "few"], ["--clients"]),
    "unknown option": (["run", "deep-sea-treasure", "--client", "3"], ["--client"]),
    "preference file off the simplex": (
        ["run", "deep-sea-treasure", "--clients", "2", "--preferences", "off.csv"],
        ["off.csv", "row 2", "simplex"],
    ),
    "preference file of wrong size": (
        ["run", "deep-sea-treasure", "--clients", "3", "--preferences", "off.csv"],
        ["off.csv", "expected 3 rows", "got 2"],
    ),
    "no such preference file": (
        ["run", "deep-sea-treasure", "--preferences", "none.csv"],
        ["none.csv"],
    ),
    "config with a typo": (["run", "--config", "typo.toml"], ["cliens", "clients"]),
    "config that is no TOML": (["run", "--config", "broken.toml"], ["broken.toml"]),
    "no such config": (["run", "--config", "none.toml"], ["none.toml"]),
    "nothing to run": (["run"], ["problem"]),
    "existing directory": (
        ["run", "deep-sea-treasure", "--out", "taken"],
        ["taken", "exists already"],
    ),
    "existing comparison": (
        ["compare", "deep-sea-treasure", "--algorithms", "fedavg", "--out", "taken"],
        ["taken", "exists already"],
    ),
    "resume of nothing": (["resume", "nothing"], ["nothing", "not a run directory"]),
    "report of nothing": (["report", "nothing"], ["nothing", "not a run directory"]),
    "no seeds": (
        ["compare", "deep-sea-treasure", "--algorithms", "fedavg", "--seeds", "0"],
        ["--seeds 0"],
    ),
    "seeds twice": (
        ["compare", "deep-sea-treasure", "--algorithms", "fedavg", "--seeds", "3,3"],
        ["twice"],
    ),
    "unknown row of a table": (
        ["reproduce", "thesis-4.1", "--algorithms", "fedx"],
        ["fedx", "fedavg+ft"],
    ),
    "unknown table": (["reproduce", "thesis-9.9"], ["thesis-9.9", "thesis-4.1", "thesis-3.2"]),
    "table without the problem": (
        ["reproduce", "thesis-4.1", "--only", "deep-sea-treasure-concave"],
        ["deep-sea-treasure-concave", "lunar-lander"],
    ),
    "unknown generator": (
        ["search", "deep-sea-treasure", "--generator", "magic"],
        ["magic", "annealing"],
    ),
    "unknown generator of several": (
        ["search", "deep-sea-treasure", "--generator", "gap,magic"],
        ["magic", "annealing"],
    ),
    "more clients than candidates": (
        ["search", "deep-sea-treasure", "--spread", "--clients", "9"],
        ["clients = 9", "5 candidates"],
    ),
    "an impossible reference point": (
        ["search", "deep-sea-treasure", "--set", "search.reference_point=[50,0]"],
        ["reference_point", "known front"],
    ),
    "a reference point of wrong length": (
        ["search", "minecart-deterministic", "--set", "search.reference_point=[0,0]"],
        ["3 numbers", "ore-1"],
    ),
    "unknown algorithm of a search": (
        ["search", "deep-sea-treasure", "--algorithm", "fedx"],
        ["fedx", "fedavg"],
    ),
    "settings of a learner that the problem does not use": (
        ["search", "deep-sea-treasure", "--set", "ddpg.local_steps=5"],
        ["ddpg", "dqn"],
    ),
    "preferences in a search": (
        ["search", "deep-sea-treasure", "--set", "preferences=dirichlet"],
        ["preferences", "chooses"],
    ),
    "a search that is no table": (["search", "--config", "number.toml"], ["search = 3"]),
    "a learner that is no table": (
        ["search", "deep-sea-treasure", "--rounds", "2", "--set", "dqn=3"],
        ["dqn = 3"],
    ),
    "steps that are no number": (
        ["reproduce", "thesis-3.2", "--set", "dqn.total_steps=many"],
        ["dqn.total_steps"],
    ),
    "nothing to search": (["search"], ["problem"]),
    "existing search": (["search", "deep-sea-treasure", "--out", "taken"], ["exists already"]),
    "unknown row of a table of searches": (
        ["reproduce", "thesis-3.2", "--rows", "9/10k"],
        ["9/10k", "3/10k/warm"],
    ),
    "preferences of a table of searches": (
        ["reproduce", "thesis-3.2", "--preferences", "dirichlet"],
        ["--preferences", "search"],
    ),
    "unknown list": (["list", "colours"], ["colours", "problems"]),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_names_it(case, tmp_path, monkeypatch, capsys):
    """In this process, because there are many cases and imports are slow."""
    arguments, words = CASES[case]
    (tmp_path / "off.csv").write_text("0.5,0.5\n0.9,0.9\n")
    (tmp_path / "typo.toml").write_text('problem = "deep-sea-treasure"\ncliens = 3\n')
    (tmp_path / "number.toml").write_text('problem = "deep-sea-treasure"\nsearch = 3\n')
    (tmp_path / "broken.toml").write_text("problem = \n")
    (tmp_path / "taken").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["comity", *arguments])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    for word in words:
        assert word in said.err
    assert sorted(tmp_path.rglob("*")) == before, "nothing may be half-written"


def test_help_needs_no_heavy_imports(comity):
    """What makes help slow is importing torch and friends: none of them may be loaded."""
    code = (
        "import sys, comity.cli\n"
        "heavy = {'torch', 'numpy', 'scipy', 'pydantic', 'matplotlib', 'plotly', 'mo_gymnasium'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "reproduce" in comity("--help").stdout
