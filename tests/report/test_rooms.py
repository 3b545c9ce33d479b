"""Rooms of the report: data knows no drawing library, and drawing rooms do not know each other."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import comity.report

ROOT = Path(comity.report.__file__).parent
ROOMS = ("figures", "html", "tables")


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_drawing_rooms_do_not_import_each_other(room: str) -> None:
    others = tuple(f"comity.report.{other}" for other in ROOMS if other != room)
    for path in (ROOT / room).glob("*.py"):
        assert not [name for name in imports(path) if name.startswith(others)], path


def test_data_is_prepared_without_a_drawing_library() -> None:
    modules = [f"comity.report.series.{path.stem}" for path in (ROOT / "series").glob("*.py")]
    code = (
        f"import importlib, sys; [importlib.import_module(name) for name in {sorted(modules)}]\n"
        "print(sorted({'matplotlib', 'plotly'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
