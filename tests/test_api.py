"""The functions that users call, by their public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import comity
import comity.report
from comity import api
from comity.errors import UserError
from tests.tiny import tiny

SHORT = {"clients": 2, "rounds": 2, "chunk": 2}


@pytest.fixture(autouse=True)
def drawn(tmp_path, monkeypatch) -> list[str]:
    """Names of the directories whose reports were written, in this order."""
    names: list[str] = []
    monkeypatch.chdir(tmp_path)

    def draw(path: Path, kind: str) -> None:
        names.append(path.name if kind == "png" else f"{path.name}: {kind}")
        (path / "report.html").touch()

    for name in ("write_report", "write_search_report", "write_searches_report"):
        monkeypatch.setattr(comity.report, name, lambda finished, kind: draw(finished.path, kind))
    monkeypatch.setattr(
        comity.report, "write_comparison_report", lambda path, *rest: draw(path, rest[-1])
    )
    return names


def test_every_public_name_exists_and_is_shown_to_type_checkers():
    for name in comity.__all__:
        assert getattr(comity, name) is not None
    tree = ast.parse(Path(comity.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [alias.asname for node in imports for alias in node.names if alias.asname]
    assert sorted(names) == comity.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = comity.nothing


def test_a_run_is_executed_and_then_reported(drawn):
    run = comity.run("tiny-treasure", algorithm="fedavg", **SHORT)
    assert run.path == Path("runs/tiny-treasure-fedavg-seed1")
    assert run.finished
    assert drawn == ["tiny-treasure-fedavg-seed1"]
    assert isinstance(api.report(run.path), comity.Run)
    assert len(drawn) == 2


def test_a_run_is_resumed_by_its_directory_or_as_it_is(drawn):
    path = comity.Run.create(Path("r"), tiny(**SHORT, seed=1)).path
    finished = comity.resume(path)
    assert isinstance(finished, comity.Run)
    again = comity.resume(comity.Run.create(Path("s"), tiny(**SHORT, seed=1)))
    assert isinstance(again, comity.Run)
    assert again.results == finished.results
    assert drawn == ["r", "s"]
    with pytest.raises(UserError, match="r is finished already; see it with: comity report r"):
        comity.resume("r")


def test_a_comparison_is_resumed_where_it_stopped(drawn):
    def stop(event: comity.RoundEvent) -> None:
        assert event.total == 4
        if event.done == 3:
            raise KeyboardInterrupt

    entries = ["fedavg", "no-communication"]
    with pytest.raises(KeyboardInterrupt):
        comity.compare(
            "tiny-treasure", algorithms=entries, seeds=1, out="c", on_round=stop, **SHORT
        )
    assert drawn == []
    assert api.has_plan(Path("c"))
    with pytest.raises(UserError, match="not finished"):
        comity.open("c")
    resumed = comity.resume("c")
    assert isinstance(resumed, comity.Comparison)
    assert list(resumed.runs) == [(entry, "dirichlet") for entry in entries]
    assert drawn == ["c"]
    opened = comity.open("c")
    assert isinstance(opened, comity.Comparison)
    assert opened.results == resumed.results
    assert [run.path for group in opened.runs.values() for run in group] == [
        run.path for group in resumed.runs.values() for run in group
    ]


def test_searches_are_compared_and_resumed(drawn):
    settings = {**SHORT, "iterations": 1, "candidates": 2}
    made = comity.compare_searches(
        "tiny-treasure", generators=["grid"], seeds=[3], out="s", **settings
    )
    assert [row["search"] for row in made.results["rows"]] == ["grid", "random"]
    assert drawn == ["s"]
    resumed = comity.resume("s")
    assert isinstance(resumed, comity.SearchComparison)
    assert resumed.results == made.results
    assert drawn == ["s", "s"]


def test_a_search_and_its_control_are_reported(drawn):
    settings = {**SHORT, "iterations": 1, "candidates": 2}
    search = comity.search("tiny-treasure", generator="grid", **settings)
    assert search.path == Path("runs/tiny-treasure-search-grid-seed1")
    assert drawn == ["control", "tiny-treasure-search-grid-seed1"]
    assert isinstance(comity.open(search.path), comity.Search)


@pytest.mark.parametrize(
    "function",
    [
        lambda: comity.run("tiny-treasure", workers=0),
        lambda: comity.compare("tiny-treasure", algorithms=["fedavg"], workers=0),
        lambda: comity.search("tiny-treasure", workers=0),
        lambda: comity.compare_searches("tiny-treasure", generators=["gap"], workers=0),
        lambda: comity.pretrain("tiny-answers", "agent.safetensors", workers=0),
        lambda: comity.reproduce("thesis-4.1", workers=0),
    ],
)
def test_a_mistake_shows_before_anything_is_written(function, tmp_path):
    with pytest.raises(UserError, match="workers = 0: must be at least 1"):
        function()
    assert not list(tmp_path.iterdir())


def test_a_table_that_is_not_printed_is_refused():
    with pytest.raises(UserError, match="unknown table 'thesis-4'"):
        comity.reproduce("thesis-4")


def test_a_run_whose_drawing_was_interrupted_is_drawn(drawn):
    run = comity.run("tiny-treasure", algorithm="fedavg", out="r", **SHORT)
    before = (run.path / "history.jsonl").read_bytes()
    (run.path / "report.html").unlink()
    rounds: list[int] = []
    comity.resume("r", on_round=lambda event: rounds.append(event.done))
    assert drawn == ["r", "r"]
    assert rounds == []
    assert (run.path / "history.jsonl").read_bytes() == before
    with pytest.raises(UserError, match="r is finished already"):
        comity.resume("r")


def test_runs_of_a_comparison_are_drawn_when_they_are_asked_for(drawn):
    comity.compare("tiny-treasure", algorithms=["fedavg"], seeds=2, out="c", **SHORT)
    assert drawn == ["c"]
    api.report("c/fedavg_dirichlet/seed-2")
    assert drawn == ["c", "seed-2"]


def test_figures_have_a_format_that_is_checked_before_anything_is_written(drawn):
    comity.run("tiny-treasure", out="r", figures="pdf", **SHORT)
    api.report("r", figures="svg")
    assert drawn == ["r: pdf", "r: svg"]
    with pytest.raises(UserError, match="figures = 'gif': must be one of png, pdf, svg"):
        comity.run("tiny-treasure", out="s", figures="gif", **SHORT)
    assert not Path("s").exists()


def test_importing_what_users_call_imports_no_library_that_few_runs_need():
    code = (
        "import sys\nfrom comity import api\n"
        "heavy = {'scipy', 'matplotlib', 'plotly', 'gymnasium', 'mo_gymnasium', 'torch._dynamo'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
