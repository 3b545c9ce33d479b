from __future__ import annotations

from typing import Any

import pytest

import comity.execution
import comity.report
from comity.algorithms import algorithms

ALGORITHMS = sorted(algorithms())
CASES = [
    *((algorithm, "tiny-treasure") for algorithm in ALGORITHMS),
    *((algorithm, "tiny-trolley") for algorithm in ("fedprox", "fedpref")),
]


@pytest.fixture(params=ALGORITHMS)
def name(request) -> str:
    """Every registered algorithm."""
    return request.param


@pytest.fixture(params=CASES, ids="-".join)
def case(request) -> dict[str, Any]:
    """Every registered algorithm, and some of them on a continuous problem, as settings."""
    name, problem = request.param
    return {"algorithm": name, "problem": problem, "guard": algorithms()[name].communicates}


@pytest.fixture(autouse=True)
def _bare(monkeypatch) -> None:
    """Laws are about bits: no pictures, and a checkpoint after every round."""
    monkeypatch.setattr(comity.report, "write_report", lambda run: None)
    monkeypatch.setattr(comity.execution, "_CHECKPOINT_SECONDS", 0.0)
