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


EVERYBODY = [name for name in ALGORITHMS if algorithms()[name].centralised]
"""Algorithms whose clients cannot be absent."""


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


@pytest.fixture(params=ALGORITHMS)
def uneven(request) -> dict[str, Any]:
    """Every registered algorithm where clients have unlike data and go through them twice."""
    return {
        "algorithm": request.param,
        "problem": "tiny-people",
        "sizes": "8,4,2,1",
        "supervised": {"local_epochs": 2, "batch_size": 48},
    }


@pytest.fixture(params=ACTING)
def name(request) -> str:
    """Every registered algorithm that can learn from rewards."""
    return request.param


@pytest.fixture(autouse=True)
def _bare(monkeypatch) -> None:
    """Laws are about bits: no pictures, and a checkpoint after every round."""
    monkeypatch.setattr(comity.report, "write_report", lambda run: None)
    monkeypatch.setattr(comity.execution, "_CHECKPOINT_SECONDS", 0.0)
