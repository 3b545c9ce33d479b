"""Settings as typed dicts: in step with their declarations, and what a type checker says."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import get_type_hints

import pytest

import comity.api
from comity.api.typed import CompareSettings, RunSettings, SearchSettings
from comity.configuration import RUN_SETTINGS
from tests.typed_settings import HOME, sources


@pytest.mark.parametrize("name", ["algorithms", "parts", "run"])
def test_typed_dicts_are_those_of_the_declarations(name):
    wanted = ast.dump(ast.parse(sources()[name]))
    written = ast.dump(ast.parse((HOME / f"{name}.py").read_text()))
    assert written == wanted, "write them again: python -m tests.typed_settings"


def test_every_setting_is_completed():
    run, compared = get_type_hints(RunSettings), get_type_hints(CompareSettings)
    assert set(RUN_SETTINGS) - {"problem"} <= set(run)
    assert {"fedpref", "supervised", "dqn", "confree"} <= set(run)
    assert set(run) - set(compared) == {"algorithm", "seed"}
    assert {"iterations", "generator", "annealing"} <= set(get_type_hints(SearchSettings))
    hints = get_type_hints(comity.api.run, include_extras=True)
    assert "RunSettings" in str(hints["settings"])


CALLS = """
import comity
from typing import Any
comity.run("p", algorithm="fedpref", clients=2, fedpref={"top_r": 0.4})
comity.run("p", clients="many")
comity.run("p", cleints=2)
comity.run("p", fedpref={"top": 0.4})
comity.compare("p", algorithms=["fedavg"], preferences=["dirichlet"], encodings=["int8"])
comity.search("p", generator="gap", iterations=3, keep="best")
comity.search("p", keep="worst")
tables: dict[str, Any] = {"mine": {"rate": 0.1}}
comity.run("p", algorithm="module:Mine", **tables)
entry: str = comity.algorithms()["fedpref"].summary
comity.figure(comity.run("p"), "front")
"""


@pytest.mark.slow
def test_a_type_checker_knows_settings(tmp_path):
    """Only the lines with a mistake have an error: a wrong type, unknown names, a wrong choice."""
    (tmp_path / "calls.py").write_text(CALLS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "", "--ignore-missing-imports",
         "--follow-imports", "silent", "calls.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if "error" in line and ":" in line]
    assert [int(line.split(":")[1]) for line in errors if "calls.py" in line] == [5, 6, 7, 10], (
        errors
    )
