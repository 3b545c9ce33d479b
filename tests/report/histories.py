"""Histories and results made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from comity.runs.directory import Run

Entry = dict[str, Any]


def entry(round: int, kept: Any, clients: Sequence[int] | None = None, **others: Any) -> Entry:
    """A line of a history in which each client has spent 100 + 10 steps per round."""
    rows = np.asarray(kept, dtype=float).tolist()
    present = list(range(len(rows))) if clients is None else list(clients)
    line: Entry = {
        "round": round,
        "clients": present,
        "steps": [100 * round] * len(present),
        "validation_steps": [10 * round] * len(present),
        "skipped": [0] * len(present),
        "received": None,
        "trained": None,
        "kept": rows,
        "declined": [False] * len(present),
        "clusters": None,
        "mixing": None,
        "bytes_up": 0,
        "bytes_down": 0,
        "events": [],
    }
    return {**line, **others}


def iteration(number: int, hypervolume: float, front: Any, weights: Any) -> Entry:
    """A line of a search's history: each candidate costs 100 + 10 + 5 environment steps."""
    tried = np.asarray(weights, dtype=float).tolist()
    count = (number + 1) * len(tried)
    vectors = np.asarray(front, dtype=float).tolist()
    return {
        "iteration": number + 1,
        "candidates": [{"weight": w, "objectives": vectors[0], "start": None} for w in tried],
        "evaluations": count,
        "hypervolume": hypervolume,
        "front": vectors,
        "environment_steps": {
            "training": 100 * count,
            "validation": 10 * count,
            "evaluation": 5 * count,
        },
    }


def search_row(
    search: str, growth: Sequence[float], seeds: Sequence[int] = (1, 2), **means: float
) -> dict[str, Any]:
    """A row of a comparison of searches; an iteration has five candidates and 600 steps."""
    return {
        "search": search,
        "algorithm": "fedavg",
        "clients": 3,
        "seeds": list(seeds),
        "metrics": {name: {"mean": mean, "std": 0.5} for name, mean in means.items()},
        "candidates": 5.0 * len(growth),
        "environment_steps": 600.0 * len(growth),
        "growth": [
            {
                "evaluations": 5 * number,
                "environment_steps": 600.0 * number,
                "hypervolume": {"mean": value, "std": 0.25},
            }
            for number, value in enumerate(growth, start=1)
        ],
        "runs": [f"{search}/seed-{seed}" for seed in seeds],
    }


def searches(*rows: dict[str, Any], **baselines: Any) -> dict[str, Any]:
    """The results of a comparison of searches."""
    return {
        "problem": "deep-sea-treasure",
        "reference_point": [0.0, -50.0],
        "rows": list(rows),
        **baselines,
    }


def rewrite(run: Run, change: Callable[[dict[str, Any]], None]) -> Run:
    """The run again, with its results changed on disk."""
    results = json.loads((run.path / "results.json").read_text())
    change(results)
    (run.path / "results.json").write_text(json.dumps(results))
    (run.path / "checksums.json").unlink()  # which would refuse the change
    return Run.open(run.path)
