"""Bad input: one line that names the field, exit code 2, nothing half-written."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tomli_w

from comity.cli import main
from tests.e2e.conftest import TINY

CASES = {
    "unknown problem": (["run", "deep-see"], ["deep-see", "deep-sea-treasure"]),
    "unknown algorithm": (["run", "deep-sea-treasure", "--algorithm", "fedx"], ["fedx", "fedprox"]),
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
    "unknown table": (
        ["reproduce", "thesis-9.9"],
        ["thesis-9.9", "Did you mean 'thesis-A.9'?", "confree-2"],
    ),
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
        ["fedx", "fedprox"],
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
    "losses of an environment": (
        ["run", "deep-sea-treasure", "--algorithm", "fedcmoo"],
        ["fedcmoo", "differentiable losses", "deep-sea-treasure"],
    ),
    "losses of an environment in a comparison": (
        ["compare", "deep-sea-treasure", "--algorithms", "fedavg,fsmgda"],
        ["fsmgda", "differentiable losses"],
    ),
    "partition of an environment": (
        ["run", "deep-sea-treasure", "--partition", "dirichlet:0.3"],
        ["partition = dirichlet:0.3", "environments, not data"],
    ),
    "sizes of environments": (
        ["compare", "deep-sea-treasure", "--algorithms", "fedavg", "--sizes", "dirichlet:2"],
        ["sizes = dirichlet:2", "environments, not data"],
    ),
    "unknown partition": (
        ["run", "german-credit-gender-dp", "--partition", "sideways"],
        ["sideways", "stratified, naive, dirichlet:ALPHA, pathological:S, shards:S or natural"],
    ),
    "partition without a number": (
        ["run", "german-credit-gender-dp", "--partition", "dirichlet"],
        ["partition: 'dirichlet'", "positive number"],
    ),
    "impossible partition": (
        [
            "compare",
            "german-credit-gender-dp",
            "--algorithms",
            "fedavg",
            "--partition",
            "dirichlet:-1",
        ],
        ["partition: 'dirichlet:-1'", "positive number"],
    ),
    "unknown sizes": (
        ["run", "german-credit-gender-dp", "--sizes", "large"],
        ["large", "equal, dirichlet:BETA"],
    ),
    "sizes of other clients": (
        ["run", "german-credit-gender-dp", "--clients", "2", "--sizes", "3,2,1"],
        ["3,2,1", "got 3 for 2 clients"],
    ),
    "natural clients of data without sites": (
        ["run", "german-credit-gender-dp", "--partition", "natural"],
        ["natural", "which silo"],
    ),
    "too many natural clients": (
        ["run", "heart-disease-gender-eo", "--partition", "natural", "--clients", "9"],
        ["cleveland, hungarian, switzerland, va", "clients = 4 instead of 9"],
    ),
    "more clients than rows allow": (
        ["run", "german-credit-gender-eo", "--clients", "200"],
        # 310 women, of whom 201 are good risks: 67 times three
        ["gender = female with label yes", "201 rows", "200 clients", "at most 67"],
    ),
    "episodes of data": (
        ["run", "german-credit-gender-dp", "--set", "test_episodes=3"],
        ["test_episodes", "it has data"],
    ),
    "settings of an environment's learner": (
        ["run", "german-credit-gender-dp", "--set", "dqn.local_steps=3"],
        ["dqn", "supervised"],
    ),
    "a search with private parts of models": (
        ["search", "german-credit-gender-dp", "--algorithm", "fedrep"],
        ["fedrep", "parts that stay with clients", "fedavg"],
    ),
    "searches whose server has too few rows": (
        ["search", "german-credit-gender-dp", "--seeds", "2", "--set", "search.server_share=1e-4"],
        ["search.server_share", "raise the share"],
    ),
    "a grid that nobody prints": (
        ["compare", "deep-sea-treasure", "--algorithms", "fedavg,ditto[grid]"],
        ["ditto[grid]", "deep-sea-treasure", "comity list grids"],
    ),
    "table of another fairness": (
        ["reproduce", "thesis-5.2", "--only", "adult-gender-dp"],
        ["thesis-5.2", "Did you mean 'adult-gender-eo'"],
    ),
    "table without the data set": (
        ["reproduce", "thesis-5.4", "--only", "compas-race-eo"],
        ["compas-race-eo", "law-school-race-eo"],
    ),
    "unknown row of a table of fairness": (
        ["reproduce", "thesis-5.4", "--rows", "fedavg"],
        ["fedavg", "fedcmoo-pref"],
    ),
    "preferences of a table of fairness": (
        ["reproduce", "thesis-5.4", "--preferences", "gaussian"],
        ["--preferences", "thesis-5.4"],
    ),
}


def refused(arguments, words, tmp_path, monkeypatch, capsys):
    """Code 2, one line with these words, and the directory as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["comity", *map(str, arguments)])
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


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_names_it(case, tmp_path, monkeypatch, capsys):
    """In this process, because there are many cases and imports are slow."""
    arguments, words = CASES[case]
    (tmp_path / "off.csv").write_text("0.5,0.5\n0.9,0.9\n")
    (tmp_path / "typo.toml").write_text('problem = "deep-sea-treasure"\ncliens = 3\n')
    (tmp_path / "number.toml").write_text('problem = "deep-sea-treasure"\nsearch = 3\n')
    (tmp_path / "broken.toml").write_text("problem = \n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    refused(arguments, words, tmp_path, monkeypatch, capsys)


REGIONS, PAID = ("south", "north", "north"), ("no", "no", "yes", "yes")
PEOPLE = ["age,sex,region,paid"] + [
    f"{20 + i % 50},{'fm'[i % 2]},{REGIONS[i % 3]},{PAID[i % 4]}" for i in range(120)
]


def row(number, text):
    """A change to a table: another row of that number, the header being row 1."""
    return lambda lines: [*lines[: number - 1], text, *lines[number:]]


OWN = {
    "a sensitive column with one value": (
        {},
        lambda lines: [line.replace(",m,", ",f,") for line in lines],
        ["sensitive attribute 'sex'", "1 different values", "'f'"],
    ),
    "a natural client with one group": (
        {"client": "region", "partition": "natural"},
        lambda lines: [line.replace(",m,south", ",f,south") for line in lines],
        ["client 1 (south)", "0 rows of 'sex = m'"],
    ),
    "a group without a row": (
        {"sensitive": {"years": {"column": "age", "groups": {"child": "< 10", "adult": "*"}}}},
        None,
        ["'years'", "no row is in group 'child'"],
    ),
    "a label of three values": (
        {},
        row(8, "30,f,north,maybe"),
        ["label 'paid'", "exactly two values, found 3", "'maybe' (row 8)"],
    ),
    "a label of two words": (
        {"label": "region", "client": None},
        None,
        ["label 'region'", "'north' or 'south'", "positive = 'south'"],
    ),
    "another positive value": ({"positive": "ja"}, None, ["positive value of label 'paid'", "ja"]),
    "no label": ({"label": None}, None, ["problem.label is missing"]),
    "nothing sensitive": ({"sensitive": []}, None, ["sensitive", "at least one column"]),
    "a missing cell": (
        {},
        row(5, ",f,north,no"),
        ["row 5, column 'age' is missing", "missing = 'drop'", "'category'"],
    ),
    "a missing label among categories": (
        {"missing": "category"},
        row(6, "30,f,north,?"),
        ["row 6, column 'paid' is missing", "missing = 'drop'"],
    ),
    "a way with missing cells": ({"missing": "guess"}, None, ["problem.missing = 'guess'", "drop"]),
    "an unknown label": ({"label": "payed"}, None, ["column", "'payed'", "Did you mean 'paid'"]),
    "an unknown sensitive column": ({"sensitive": ["gender"]}, None, ["'gender'", "Valid: age"]),
    "an unknown feature": ({"features": ["agee"]}, None, ["'agee'", "Did you mean 'age'"]),
    "an unknown client column": ({"client": "town"}, None, ["'town'", "region"]),
    "an unknown setting": ({"sensitve": ["sex"]}, None, ["sensitve", "sensitive"]),
    "a row that is too long": (
        {},
        row(9, "30,f,north,no,and more"),
        ["row 9 has 5 cells", "header has 4"],
    ),
    "an empty row": ({}, row(9, ""), ["row 9 has 0 cells", "header has 4"]),
    "two columns of one name": ({}, row(1, "age,sex,sex,paid"), ["2 columns are called 'sex'"]),
    "an open quote": ({}, row(7, '"30,f,north,no'), ["line 121", "quotes"]),
    "no such file": ({"data": "nowhere.csv"}, None, ["problem.data", "nowhere.csv"]),
    "an unknown data set": ({"data": "adlut"}, None, ["problem.data", "adlut"]),
    "an attribute that a data set does not have": (
        {"data": "german-credit", "label": None, "sensitive": ["race"]},
        None,
        ["sensitive attribute of german-credit", "'race'", "age, gender"],
    ),
    "an unknown metric": ({"metrics": ["dpp"]}, None, ["problem.metrics", "'dpp'", "eodds"]),
    "no metric": ({"metrics": []}, None, ["metrics must name at least one"]),
    "more clients than rows allow": (
        {"clients": 40, "metrics": ["eo"]},
        None,
        ["sex = f with label yes", "30 rows", "40 clients", "at most 10 clients"],
    ),
    "an unknown partition": ({"partition": "sideways"}, None, ["sideways", "stratified"]),
    "unknown sizes": ({"sizes": "large"}, None, ["large", "equal"]),
    "sizes of natural clients": (
        {"client": "region", "partition": "natural", "sizes": "2,1"},
        None,
        ["sizes: '2,1'", "natural"],
    ),
    "natural clients without a column": ({"partition": "natural"}, None, ["client = …"]),
}


@pytest.mark.parametrize("case", OWN)
def test_a_table_of_ones_own_that_cannot_work(case, tmp_path, monkeypatch, capsys):
    changes, change, words = OWN[case]
    data = tmp_path / "loans.csv"
    data.write_text("\n".join(PEOPLE if change is None else change(PEOPLE)) + "\n")
    values = {"clients": 2, "rounds": 1}
    problem = {"data": str(data), "label": "paid", "sensitive": ["sex"]}
    for name, value in changes.items():
        table = values if name in ("clients", "partition", "sizes") else problem
        table[name] = value
    problem = {name: value for name, value in problem.items() if value is not None}
    (tmp_path / "own.toml").write_text(tomli_w.dumps({**values, "problem": problem}))
    refused(["run", "--config", "own.toml"], words, tmp_path, monkeypatch, capsys)


def test_a_search_on_a_table_of_ones_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "loans.csv").write_text("\n".join(PEOPLE) + "\n")
    problem = {"data": str(tmp_path / "loans.csv"), "label": "paid", "sensitive": ["sex"]}
    (tmp_path / "own.toml").write_text(tomli_w.dumps({"problem": {**problem, "name": "loans"}}))
    command = ["search", "--config", "own.toml", "--set", "search.evaluation_episodes=2"]
    words = ["evaluation_episodes means nothing for loans"]
    refused(command, words, tmp_path, monkeypatch, capsys)


def test_help_needs_no_heavy_imports(process):
    """What makes help slow is importing torch and friends: none of them may be loaded."""
    code = (
        "import sys, comity.cli\n"
        "heavy = {'torch', 'numpy', 'scipy', 'pydantic', 'matplotlib', 'plotly', 'mo_gymnasium',\n"
        "         'grpc', 'cryptography'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert "reproduce" in process("--help").stdout
