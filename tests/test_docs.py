"""Every snippet of README and docs runs."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import comity
import comity.api
import comity.report
import comity.reproductions
from comity.algorithms import Algorithm, Round, algorithms, registry
from comity.cli import app, main
from comity.core.phases import Phase, View
from comity.problems import DataProblem, find, problems
from comity.reproductions import Campaign
from comity.searches import candidates, generators
from tests.conftest import DRAWING

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
MEASURED = [ROOT / "benchmarks" / "RESULTS.md", *(ROOT / "benchmarks" / "results").glob("*.md")]
SLOW = pytest.mark.slow
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
EXECUTED = {
    *("agent-1", "algorithms-0", "any-preference-3", "any-preference-7", "fairness-4"),
    *("measures-0", "own-algorithm-2", "partners-0", "privacy-0", "protocols-3", "python-2"),
    *("real-sites-2", "robust-1", "runs-0", "search-3", "thin-links-7", "tuning-0"),
    *("using-models-1", "using-models-3", "worth-it-1"),
}
"""Blocks of commands that fast tests execute beside those of README: all in which a command reads
what another has written, but for a rehearsal, which README has, and some of other kinds. Slow tests
execute the others."""


@pytest.fixture(autouse=True)
def _registries(monkeypatch):
    """Forget what snippets register."""
    for module in (registry, candidates):
        monkeypatch.setattr(module, "_REGISTRY", dict(module._REGISTRY))


def undrawn(patch: pytest.MonkeyPatch) -> None:
    """Draw no reports, as other tests do: they take longer than short runs."""
    for name in DRAWING:
        patch.setattr(comity.report, name, lambda *_: None)


def blocks(language: str) -> list[Any]:
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text()))
        if found == language
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(*block.values, id=block.id, marks=SLOW) if "cluster" in block.id else block
        for block in blocks("python")
    ],
)
def test_python(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    undrawn(monkeypatch)
    exec(compile(text, "snippet", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_reference(page, tmp_path, monkeypatch):
    """The examples of a page of the reference are one script."""
    found = BLOCK.findall(page.read_text())
    assert {language for language, _ in found} <= {"python"}
    script = "\n".join(text for _, text in found)
    if page.stem != "events":
        monkeypatch.chdir(tmp_path)
        undrawn(monkeypatch)
        exec(compile(script, page.name, "exec"), {"__name__": "snippet"})
        return
    # loggers of others change the process that they are in
    bare = f"import comity.report\nfor name in {DRAWING}: setattr(comity.report, name, print)\n"
    command = [sys.executable, "-W", "error::FutureWarning", "-c", bare + script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def commands(text: str) -> list[list[str]]:
    """The commands of a block as words, without those for make, whose targets must exist."""
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    for words in lines:
        assert words[0] in ("comity", "make")
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [words for words in lines if words[0] == "comity"]


def copy_examples(text: str, home: Path) -> None:
    """Put the files that a block names where it looks for them."""
    for name in ("banks", "space", "tuning"):
        if f"examples/{name}" in text:
            shutil.copytree(ROOT / "examples" / name, home / "examples" / name)
    if "examples/banks" in text:
        federation = home / "examples" / "banks" / "federation.toml"
        federation.write_text(federation.read_text().replace("rounds = 20", "rounds = 2"))
    if "classics:" in text:
        shutil.copy(ROOT / "examples" / "own_algorithms" / "classics.py", home)


def shortened(words: list[str]) -> list[str]:
    """A command with what makes it short."""
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
    return [*words, *more]


def executed(block: Any) -> bool:
    return block.id.startswith("README-") or block.id in EXECUTED


def test_executed_blocks_exist():
    assert {block.id for block in blocks("sh")} >= EXECUTED


@pytest.mark.parametrize(
    "text",
    [
        block if executed(block) else pytest.param(*block.values, id=block.id, marks=SLOW)
        for block in blocks("sh")
    ],
)
def test_shell(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy_examples(text, tmp_path)
    for words in commands(text):
        monkeypatch.setattr(sys, "argv", shortened(words))
        with monkeypatch.context() as quick:
            if words[1] in SHORT:
                undrawn(quick)
            with pytest.raises(SystemExit) as exit:
                main()
        assert exit.value.code == 0, words


class WorkError(Exception):
    """Raised where the work itself would begin."""


def plan_only(table: str, campaign: Campaign[Any], *, out: Path, **_: Any) -> None:
    """Check all comparisons of a table that are not there yet, and execute none."""
    for name, plan in campaign.plans.items():
        if campaign.prepare is None and not (out / name).exists():
            campaign.kind.start(**plan, out=out / name)
    raise WorkError


def work(*_: object, **__: object) -> None:
    raise WorkError


@pytest.mark.parametrize("text", [block for block in blocks("sh") if not executed(block)])
def test_commands_mean_something(text, tmp_path, monkeypatch):
    """As they stand, up to the work: options are known, and settings fit problem and algorithm."""
    monkeypatch.chdir(tmp_path)
    copy_examples(text, tmp_path)
    monkeypatch.setattr(comity.api, "resume", work)
    monkeypatch.setattr(comity.reproductions, "execute_campaign", plan_only)
    group = get_command(app)
    for words in commands(text):
        if words[1] in SHORT and "--list" not in words:
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(WorkError):
                main()
        else:
            group.commands[words[1]].make_context(words[1], words[2:])


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.stem)
def test_examples(script, tmp_path, monkeypatch, capsys):
    """With two rounds of few steps, in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("run", "compare", "search"):
        monkeypatch.setattr(comity, name, short(getattr(comity.api, name)))
    runpy.run_path(str(script), run_name="__main__")
    assert (tmp_path / capsys.readouterr().out.split("pictures: ")[1].strip()).is_file()


def short(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the package that executes, with two rounds of few steps in one process."""

    def called(problem: str, **settings: Any) -> Any:
        few = {find(problem).learner: {"local_steps": 32}}
        return function(problem, **{**settings, **few, "rounds": 2, "workers": 1})

    return called


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES, ids=lambda p: p.stem)
def test_whole_examples(script, tmp_path):
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
