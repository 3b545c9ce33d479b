from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TINY = [
    *("--clients", "4", "--rounds", "4", "--set", "chunk=2", "--set", "dqn.local_steps=64"),
    *("--set", "dqn.learning_starts=16", "--set", "dqn.batch_size=16"),
]
"""Options that make a run of deep-sea-treasure short."""


@pytest.fixture
def comity(tmp_path):
    """The command line in a directory of its own; returns the finished process."""

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
