"""Conflicts between the updates of clients, round by round."""

from __future__ import annotations

import numpy as np

from comity.core.typing import FloatArray
from comity.runs.directory import Run

SHARES = {
    "pairs": "pairs of clients whose updates point apart",
    "mean": "clients against the plain mean",
    "guided": "clients against the step taken",
}
"""The shares that are measured in a round, with their labels."""


def conflict_shares(run: Run) -> FloatArray:
    """Return one row per round in which conflicts were measured: the round, then each share."""
    rounds = [(entry["round"], entry.get("conflict") or {}) for entry in run.history]
    return np.array(
        [
            [number, *(shares[name] for name in SHARES)]
            for number, shares in rounds
            if shares.keys() >= SHARES.keys()
        ]
    )
