from __future__ import annotations

from typing import Any

import pytest

import comity.execution
import comity.report
from comity.algorithms import algorithms

ALGORITHMS = sorted(algorithms())
ACTING = [name for name in ALGORITHMS if not algorithms()[name].needs_losses()]
CASES = [
    *((algorithm, "tiny-treasure") for algorithm in ACTING),
    *((algorithm, "tiny-people") for algorithm in ALGORITHMS),
]
CONTINUOUS = [(algorithm, "tiny-trolley") for algorithm in ("fedprox", "fedpref")]


@pytest.fixture(params=CASES, ids="-".join)
def plain(request) -> dict[str, Any]:
    """Every registered algorithm on an environment, if it can learn one, and on data."""
    name, problem = request.param
    return {"algorithm": name, "problem": problem}


@pytest.fixture(params=[*CASES, *CONTINUOUS], ids="-".join)
def case(request) -> dict[str, Any]:
    """The same with guards, and some of them on a continuous problem, as settings."""
    name, problem = request.param
    return {"algorithm": name, "problem": problem, "guard": algorithms()[name].communicates}


@pytest.fixture(params=ACTING)
def name(request) -> str:
    """Every registered algorithm that can learn from rewards."""
    return request.param


@pytest.fixture(autouse=True)
def _bare(monkeypatch) -> None:
    """Laws are about bits: no pictures, and a checkpoint after every round."""
    monkeypatch.setattr(comity.report, "write_report", lambda run: None)
    monkeypatch.setattr(comity.execution, "_CHECKPOINT_SECONDS", 0.0)
