"""Matrices between clients, mixing or similarity, at a few rounds of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comity.core.typing import FloatArray, IntArray
from comity.report.series.curves import preferences_of
from comity.runs.directory import Run
from comity.runs.schema import Vectors


@dataclass(frozen=True)
class MixingSeries:
    """Matrices (clients x clients), clients ordered by weight on the first objective."""

    rounds: list[int]
    matrices: list[FloatArray]
    """One per round. Mixing: receivers x givers, NaN in rows of absent receivers. Similarity: NaN
    between clusters and for absent clients."""
    order: IntArray
    """The client of each row and column."""


def mixing_series(run: Run) -> MixingSeries | None:
    """Return up to four mixing matrices of a run; None if the clients never mixed.

    They are the first, the one from which on little changes, and two between.
    """
    return _series(run, [(e["round"], e["mixing"]) for e in run.history], absent=np.nan)


def similarity_series(run: Run) -> MixingSeries | None:
    """Return up to four similarity matrices of a run, chosen like those of `mixing_series`."""
    entries = [(e["round"], e.get("server", {}).get("similarity")) for e in run.history]
    return _series(run, entries, absent=-2.0)


def _series(run: Run, rounds: list[tuple[int, Vectors]], absent: float) -> MixingSeries | None:
    """Return some of the matrices of a run; ``absent`` stands for NaN where two are compared."""
    entries = [(number, matrix) for number, matrix in rounds if matrix is not None]
    if not entries:
        return None
    matrices = [np.array(matrix, dtype=float) for _, matrix in entries]
    filled = [np.where(np.isnan(matrix), absent, matrix) for matrix in matrices]
    moving = [
        index
        for index, matrix in enumerate(filled)
        if np.nanmax(np.abs(matrix - filled[-1]), initial=0.0) > 0.05
    ]
    settled = min(moving[-1] + 1, len(entries) - 1) if moving else 0
    chosen = np.unique(np.linspace(0, settled, 4).round().astype(int)).tolist()
    order = np.argsort(preferences_of(run)[:, 0], kind="stable")
    return MixingSeries(
        rounds=[entries[index][0] for index in chosen],
        matrices=[matrices[index][np.ix_(order, order)] for index in chosen],
        order=order,
    )
