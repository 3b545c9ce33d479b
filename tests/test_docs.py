"""Every snippet of README and docs runs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import comity.report
from comity.algorithms import Algorithm, Round, algorithms, registry
from comity.cli import main
from comity.core.phases import Phase, View
from comity.problems import DataProblem, problems
from comity.searches import candidates, generators

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
MEASURED = [ROOT / "benchmarks" / "RESULTS.md", *(ROOT / "benchmarks" / "results").glob("*.md")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)

SHORT = {
    "run": ["--rounds", "2", "--set", "dqn.local_steps=32"],
    "compare": ["--rounds", "2", "--clients", "3", "--set", "dqn.local_steps=32", "--seeds", "1"],
    "search": [
        *("--iterations", "1", "--rounds", "2", "--set", "dqn.local_steps=32"),
        *("--set", "dqn.learning_starts=16"),
    ],
    "tune": [
        *("--rounds", "2", "--clients", "3", "--set", "dqn.local_steps=32", "--seeds", "1"),
        *("--trials", "2"),
    ],
    "pretrain": ["--rounds", "2"],
    "reproduce": ["--set", "rounds=2", "--set", "clients=3", "--set", "dqn.local_steps=32"],
}
"""Appended to commands, so that a page may show the real thing."""
DRAWING = [
    *("write_report", "write_comparison_report", "write_search_report", "write_searches_report"),
    "write_tuning_report",
]


@pytest.fixture(autouse=True)
def _registries(monkeypatch):
    """Forget what snippets register."""
    for module in (registry, candidates):
        monkeypatch.setattr(module, "_REGISTRY", dict(module._REGISTRY))


def blocks(language: str) -> list[object]:
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text()))
        if found == language
    ]


@pytest.mark.parametrize("text", blocks("python"))
def test_python(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(text, "snippet", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_reference(page, tmp_path):
    """The examples of a page of the reference are one script."""
    found = BLOCK.findall(page.read_text())
    assert {language for language, _ in found} <= {"python"}
    script = "\n".join(text for _, text in found)
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("sh"))
def test_shell(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "examples/banks" in text:
        banks = shutil.copytree(ROOT / "examples" / "banks", tmp_path / "examples" / "banks")
        federation = banks / "federation.toml"
        federation.write_text(federation.read_text().replace("rounds = 20", "rounds = 2"))
    if "examples/space" in text:
        shutil.copytree(ROOT / "examples" / "space", tmp_path / "examples" / "space")
    if "examples/tuning" in text:
        shutil.copytree(ROOT / "examples" / "tuning", tmp_path / "examples" / "tuning")
    if "classics:" in text:
        shutil.copy(ROOT / "examples" / "own_algorithms" / "classics.py", tmp_path)
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            continue
        assert words[0] == "comity"
        more = SHORT.get(words[1], [])
        if words[1] == "run" and "--clients" not in words:
            more = [*more, "--clients", "3"]
        named = [problems()[word] for word in words if word in problems()]
        if "--clients" in more and any("clients" in problem.run_defaults for problem in named):
            at = more.index("--clients")
            more = more[:at] + more[at + 2 :]
        if any(isinstance(problem, DataProblem) for problem in named):
            more = [word.replace("dqn.local_steps=32", "supervised.local_steps=2") for word in more]
            more = [word.replace("dqn.learning_starts=16", "search.candidates=2") for word in more]
        if "thesis-3.2" in words:
            more = ["--set", "dqn.total_steps=64", "--set", "search.iterations=1"]
            more += ["--set", "search.candidates=1", "--seeds", "1", "--rows", "3/10k"]
        elif "thesis-4.3.5" in words:  # preferences decide the number of clients
            more = ["--set", "rounds=2", "--set", "dqn.local_steps=32", "--seeds", "1"]
        elif "thesis-5.1" in words:  # ten settings of two clients
            more = ["--set", "rounds=1", "--set", "supervised.local_steps=1", "--rows", "fedavg"]
        elif words[1] == "reproduce" and "--rows" not in words:
            row = "fedprox" if "supervised.local_steps=2" in more else "fedavg"
            row = "fedfb" if words[2].startswith("praffl") else row
            more = [*more, "--rows", row, "--seeds", "1"]
        if "--links" in words and "--rounds" in more:  # the contact plan decides the rounds
            at = more.index("--rounds")
            more = [*more[:at], "--set", "links.days=0.5", *more[at + 2 :]]
        if words[1] == "tune" and ("--over" not in words or "grid" in words):
            more = more[: more.index("--trials")]  # a grid tries all combinations
        if "--config" in words or "--charter" in words:
            more = []
        monkeypatch.setattr(sys, "argv", [*words, *more])
        with monkeypatch.context() as quick:
            if words[1] in SHORT:  # other tests draw: pictures take longer than short runs
                for name in DRAWING:
                    quick.setattr(comity.report, name, lambda *_: None)
            with pytest.raises(SystemExit) as exit:
                main()
        assert exit.value.code == 0, line


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples(script, tmp_path):
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / done.stdout.split("pictures: ")[1].strip()).is_file()


def test_the_notebook_runs_and_holds_no_outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = json.loads((ROOT / "examples" / "first-run.ipynb").read_text())
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    names: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    run = names["run"]
    assert list(names["clients"]["scalarised"]) == [
        row["scalarised"] for row in run.results["per_client"]
    ]
    assert len(names["table"]) == 2 * 2 * 3  # entries, seeds, clients
    assert [answer.probability for answer in names["accurate"]] != [
        answer.probability for answer in names["fair"]
    ]
    lines = [json.loads(line) for line in Path("rounds.jsonl").read_text().splitlines()]
    assert [line["metrics"]["validated"] for line in lines[1:-1]] == names["curve"]


def test_links_lead_somewhere():
    for page in [*PAGES, *REFERENCE, *MEASURED]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_algorithms_page_knows_every_algorithm():
    page = (ROOT / "docs" / "algorithms.md").read_text()
    for name, cls in algorithms().items():
        if cls.__module__.startswith("comity."):
            assert f"`{name}`" in page


def test_the_page_on_own_algorithms_shows_the_example_and_every_hook():
    page = (ROOT / "docs" / "own-algorithm.md").read_text()
    source = (ROOT / "examples" / "own_algorithms" / "classics.py").read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            assert "\n".join(source.splitlines()[first - 1 : node.end_lineno]) in page, node.name
    hooks = [name for name in vars(Algorithm) if not name.startswith("_")]
    hooks = [name for name in hooks if not name.startswith("model_") and name != "declaration"]
    phase = [f"Phase.{f.name}" for f in fields(Phase) if "Callable" in f.type or "Update" in f.type]
    records = [f.name for record in (Round, View) for f in fields(record)]
    missing = [name for name in [*hooks, *phase, *records, "steps"] if f"`{name}`" not in page]
    assert missing == ["Phase.passes"]  # a number or a function, of which the text speaks


def test_the_search_page_knows_every_generator():
    page = (ROOT / "docs" / "search.md").read_text()
    for name, cls in generators().items():
        if cls.__module__.startswith("comity."):
            assert f"| `{name}` |" in page


def test_promises_name_tests_that_exist():
    """Every file and every test that the page about security names."""
    page = (ROOT / "docs" / "security.md").read_text()
    files: dict[str, str] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):  # some have equal names
        files[path.name] = files.get(path.name, "") + path.read_text()
    named = re.findall(r"`(?:\w+/)?(test_\w+\.py|)(?:::(test_\w+))?`", page)
    named = [pair for pair in named if any(pair)]
    assert len(named) > 20
    file = ""
    for name, test in named:
        file = name or file
        assert file in files, file
        assert not test or f"def {test}(" in files[file], f"{file}::{test}"
