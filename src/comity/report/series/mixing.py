"""Matrices between clients, mixing or similarity, at a few rounds of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from comity.core.typing import BoolArray, FloatArray, IntArray
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
    heard: list[BoolArray] = field(default_factory=list)
    """Whether each receiver heard each giver, one matrix per round; empty with a server."""


def mixing_series(run: Run) -> MixingSeries | None:
    """Return up to four mixing matrices of a run; None if the clients never mixed.

    They are the first, the one from which on little changes, and two between.
    """
    entries = _matrices([(e["round"], e["mixing"]) for e in run.history])
    series = _series(run, _changing(entries, absent=np.nan))
    if series is None or run.configuration.topology == "star":
        return series
    return replace(series, heard=_heard(run, series))


def _heard(run: Run, series: MixingSeries) -> list[BoolArray]:
    """Return which receiver heard which giver in the rounds of a series."""
    pairs = {entry["round"]: entry.get("heard", {}) for entry in run.history}
    matrices = []
    for number in series.rounds:
        matrix = np.zeros((run.configuration.clients,) * 2, dtype=bool)
        for client, others in pairs[number].items():
            matrix[int(client), others] = True
        matrices.append(matrix[np.ix_(series.order, series.order)])
    return matrices


def similarity_series(run: Run, rounds: Sequence[int] | None = None) -> MixingSeries | None:
    """Return similarity matrices of a run; None if there are none.

    Args:
        run: The run.
        rounds: The rounds to show; None: up to four, chosen like those of `mixing_series`.
    """
    entries = _matrices([(e["round"], e.get("server", {}).get("similarity")) for e in run.history])
    if rounds is None:
        return _series(run, _changing(entries, absent=-2.0))
    return _series(run, [entry for entry in entries if entry[0] in rounds])


def _matrices(rounds: Sequence[tuple[int, Vectors]]) -> list[tuple[int, FloatArray]]:
    """Return the matrices that were recorded, with their rounds."""
    return [
        (number, np.array(matrix, dtype=float)) for number, matrix in rounds if matrix is not None
    ]


def _changing(entries: list[tuple[int, FloatArray]], absent: float) -> list[tuple[int, FloatArray]]:
    """Return up to four of the matrices; ``absent`` stands for NaN where two are compared."""
    if not entries:
        return []
    filled = [np.where(np.isnan(matrix), absent, matrix) for _, matrix in entries]
    moving = [
        index
        for index, matrix in enumerate(filled)
        if np.nanmax(np.abs(matrix - filled[-1]), initial=0.0) > 0.05
    ]
    settled = min(moving[-1] + 1, len(entries) - 1) if moving else 0
    chosen = np.unique(np.linspace(0, settled, 4).round().astype(int)).tolist()
    return [entries[index] for index in chosen]


def _series(run: Run, entries: Sequence[tuple[int, FloatArray]]) -> MixingSeries | None:
    if not entries:
        return None
    order = np.argsort(preferences_of(run)[:, 0], kind="stable")
    return MixingSeries(
        rounds=[number for number, _ in entries],
        matrices=[matrix[np.ix_(order, order)] for _, matrix in entries],
        order=order,
    )
