from __future__ import annotations

import pytest

import comity.execution
import comity.report
from comity.algorithms import algorithms

ALGORITHMS = sorted(algorithms())


@pytest.fixture(params=ALGORITHMS)
def name(request) -> str:
    """Every registered algorithm."""
    return request.param


@pytest.fixture(autouse=True)
def _bare(monkeypatch) -> None:
    """Laws are about bits: no pictures, and a checkpoint after every round."""
    monkeypatch.setattr(comity.report, "write_report", lambda run: None)
    monkeypatch.setattr(comity.execution, "_CHECKPOINT_SECONDS", 0.0)
