"""Mixing matrices of a run at a few of its rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comity.core.typing import FloatArray, IntArray
from comity.report.series.curves import preferences_of
from comity.runs.directory import Run


@dataclass(frozen=True)
class MixingSeries:
    """Mixing matrices (receivers x givers), clients ordered by weight on the first objective."""

    rounds: list[int]
    matrices: list[FloatArray]
    """One per round; rows of absent receivers are NaN."""
    order: IntArray
    """The client of each row and column."""


def mixing_series(run: Run) -> MixingSeries | None:
    """Return up to four mixing matrices of a run; None if the clients never mixed.

    They are the first, the one from which on little changes, and two between.
    """
    entries = [(e["round"], e["mixing"]) for e in run.history if e["mixing"] is not None]
    if not entries:
        return None
    matrices = [np.array(matrix, dtype=float) for _, matrix in entries]
    moving = [
        index
        for index, matrix in enumerate(matrices)
        if np.nanmax(np.abs(matrix - matrices[-1]), initial=0.0) > 0.05
    ]
    settled = min(moving[-1] + 1, len(entries) - 1) if moving else 0
    chosen = np.unique(np.linspace(0, settled, 4).round().astype(int)).tolist()
    order = np.argsort(preferences_of(run)[:, 0], kind="stable")
    return MixingSeries(
        rounds=[entries[index][0] for index in chosen],
        matrices=[matrices[index][np.ix_(order, order)] for index in chosen],
        order=order,
    )
