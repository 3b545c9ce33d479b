from __future__ import annotations

from typing import Any

import pytest

import comity.report
import comity.runs.execute
from comity.algorithms import algorithms

ALGORITHMS = sorted(
    name for name, cls in algorithms().items() if cls.__module__.startswith("comity.")
)
REWARDED = [name for name in ALGORITHMS if "rewards" in algorithms()[name].needs]
"""Algorithms that learn from rewards only."""
ACTING = [name for name in ALGORITHMS if "losses" not in algorithms()[name].needs]


def data_of(algorithm: str) -> str:
    """A problem with data that an algorithm can learn, or with rewards if it needs them."""
    if "rewards" in algorithms()[algorithm].needs:
        return "tiny-treasure"
    if algorithm == "fedbn":
        return "tiny-norms"
    return "tiny-answers" if "classes" in algorithms()[algorithm].needs else "tiny-people"


CASES = [
    *((algorithm, "tiny-treasure") for algorithm in ACTING),
    *((algorithm, data_of(algorithm)) for algorithm in ALGORITHMS if algorithm not in REWARDED),
]
CONTINUOUS = [(algorithm, "tiny-trolley") for algorithm in ("fedprox", "fedpref")]
WRAPPED = [
    *(
        (f"{algorithm}+confree", data_of(algorithm))
        for algorithm in ("fedavg", "fedrep", "fedpac", "ditto")
    ),
    *(
        (entry, "tiny-people")
        for entry in ("fedavg+clip+confree", "fedpref+clip", "matfl+geometric-median")
    ),
]
"""Some hosts of ConFREE (a shared model, a shared body, a part of what travels, one of two), and of
robust wrappers: `test_rules` has all of them."""


EVERYBODY = [name for name in ALGORITHMS if algorithms()[name].centralised]
"""Algorithms whose clients cannot be absent."""


def settings_of(entry: str, problem: str) -> dict[str, Any]:
    """The settings of an algorithm, which may be under wrappers, on a problem."""
    name, _, wrapper = entry.partition("+")
    wrapped = {"wrapper": wrapper.replace("+", ",")} if wrapper else {}
    return {"algorithm": name, "problem": problem, **wrapped}


@pytest.fixture(params=[*CASES, *WRAPPED], ids="-".join)
def plain(request) -> dict[str, Any]:
    """Every registered algorithm on an environment, if it can learn one, and on data."""
    return settings_of(*request.param)


@pytest.fixture(params=[*CASES, *WRAPPED, *CONTINUOUS], ids="-".join)
def case(request) -> dict[str, Any]:
    """The same with guards, and some of them on a continuous problem, as settings."""
    settings = settings_of(*request.param)
    return {**settings, "guard": algorithms()[settings["algorithm"]].communicates}


@pytest.fixture(params=[name for name in ALGORITHMS if name not in REWARDED])
def uneven(request) -> dict[str, Any]:
    """Every registered algorithm where clients have unlike data and go through them twice."""
    problem = data_of(request.param)
    return {
        "algorithm": request.param,
        "problem": problem,
        "sizes": "8,4,2,1",
        "supervised": {"local_epochs": 2, "batch_size": 48 if problem == "tiny-people" else 12},
    }


@pytest.fixture(autouse=True)
def _bare(monkeypatch) -> None:
    """Laws are about bits: no pictures, and a checkpoint after every round."""
    monkeypatch.setattr(comity.report, "write_report", lambda run, kind: None)
    monkeypatch.setattr(comity.runs.execute, "_CHECKPOINT_SECONDS", 0.0)
