from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from comity.algorithms import registry as algorithms
from comity.algorithms.wrappers import base as wrappers
from comity.cli import main
from comity.problems import registry as problems

TINY = [
    *("--clients", "4", "--rounds", "4", "--set", "chunk=2", "--set", "dqn.local_steps=64"),
    *("--set", "dqn.learning_starts=16", "--set", "dqn.batch_size=16"),
]
"""Options that make a run of deep-sea-treasure short."""


@pytest.fixture
def comity(tmp_path, monkeypatch, capsys):
    """The command line in a directory of its own; returns what a finished process would.

    It runs in this process, because imports are slow. What a call imports from that directory or
    registers is forgotten after it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # modules change within a second

    def call(*arguments: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        command = ["comity", *map(str, arguments)]
        capsys.readouterr()
        importlib.invalidate_caches()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", command)
            patch.setattr(sys, "path", list(sys.path))
            for registry in (algorithms, problems, wrappers):
                patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
            with pytest.raises(SystemExit) as exit:
                main()
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]
        status = exit.value.code if isinstance(exit.value.code, int) else 1
        done = subprocess.CompletedProcess(command, status, *capsys.readouterr())
        assert code is None or done.returncode == code, done.stderr
        return done

    call.home = Path(tmp_path)  # type: ignore[attr-defined]
    return call


@pytest.fixture
def process(tmp_path):
    """The command line as a process of its own, in a directory of its own."""

    def call(
        *arguments: object, code: int | None = 0, seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "comity.cli", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if code is not None:
            assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    call.home = Path(tmp_path)  # type: ignore[attr-defined]
    return call
