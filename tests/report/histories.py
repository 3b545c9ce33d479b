"""Histories made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from comity.runs import Run

Entry = dict[str, Any]


def entry(round: int, kept: Any, clients: Sequence[int] | None = None, **others: Any) -> Entry:
    """A line of a history in which each client has spent 100 + 10 steps a round."""
    rows = np.asarray(kept, dtype=float).tolist()
    present = list(range(len(rows))) if clients is None else list(clients)
    line: Entry = {
        "round": round,
        "clients": present,
        "steps": [100 * round] * len(present),
        "validation_steps": [10 * round] * len(present),
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


def rewrite(run: Run, change: Callable[[dict[str, Any]], None]) -> Run:
    """The run again, with its results changed on disk."""
    results = json.loads((run.path / "results.json").read_text())
    change(results)
    (run.path / "results.json").write_text(json.dumps(results))
    return Run.open(run.path)
