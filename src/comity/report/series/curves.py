"""What a run's history says over the rounds, as arrays: the data behind curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comity.core.typing import FloatArray, IntArray
from comity.report.measures import single
from comity.report.terms import words_of
from comity.runs.directory import Run

KINDS = ("kept", "trained", "received")
MEANINGS = {
    "kept": "kept (best validated)",
    "trained": "after local training",
    "received": "as received",
}


@dataclass(frozen=True)
class Curves:
    """Scalarised validation values by round and client; absent clients stand still."""

    rounds: IntArray
    steps: FloatArray
    """Mean steps per client so far, training and validation."""
    values: dict[str, FloatArray]
    """For each kind of model (rounds x clients); NaN while unknown."""
    optimum: FloatArray | None
    """The best possible scalarised value of each client, where it is known."""

    def mean(self, kind: str) -> FloatArray:
        return _over_clients(self.values[kind], np.mean)

    def quartiles(self, kind: str) -> tuple[FloatArray, FloatArray]:
        low = _over_clients(self.values[kind], lambda row: np.quantile(row, 0.25))
        return low, _over_clients(self.values[kind], lambda row: np.quantile(row, 0.75))

    def regret(self, kind: str) -> FloatArray | None:
        """Mean distance to the optimum."""
        if self.optimum is None:
            return None
        return _over_clients(np.maximum(self.optimum - self.values[kind], 0.0), np.mean)


def curves(run: Run) -> Curves:
    """The curves of a finished run."""
    clients = run.results["per_client"]
    preferences = preferences_of(run)
    history = run.history
    known = all("optimum" in client for client in clients)
    return Curves(
        rounds=np.array([entry["round"] for entry in history], dtype=np.int64),
        steps=_steps(history, len(clients)),
        values={kind: _values(history, kind, preferences) for kind in KINDS},
        optimum=np.array([client["optimum"] for client in clients]) if known else None,
    )


def preferences_of(run: Run) -> FloatArray:
    """Clients' preferences, one row a client."""
    return np.array([client["preference"] for client in run.results["per_client"]], dtype=float)


def objectives_of(run: Run) -> FloatArray:
    """Objective vectors of the clients' kept models, one row a client."""
    rows = [list(client["objectives"].values()) for client in run.results["per_client"]]
    return np.array(rows, dtype=float)


def validated(run: Run) -> str:
    """What curves of validated models show, as an axis label."""
    if single(run.results):
        return f"{run.configuration.get_problem().objectives[0].name} (validation)"
    return f"scalarised {words_of(run.results).value} (validation)"


def kept_round(run: Run) -> int | None:
    """The round whose models all clients keep, where one was chosen for all of them."""
    chosen = [entry["round"] for entry in run.history if entry.get("chosen")]
    if not chosen:
        return None
    # what is sent at the start of a round is what the round before ended with
    return int(chosen[-1]) - (not run.configuration.get_algorithm().select_after_training)


def _steps(history: Sequence[dict[str, Any]], clients: int) -> FloatArray:
    now = np.zeros(clients)
    lines = []
    for entry in history:
        now[entry["clients"]] = np.add(entry["steps"], entry["validation_steps"])
        lines.append(now.mean())
    return np.array(lines)


def _values(history: Sequence[dict[str, Any]], kind: str, preferences: FloatArray) -> FloatArray:
    """Scalarised values, carried forward; a round in which nobody has any stays unknown."""
    now = np.full(len(preferences), np.nan)
    lines = np.full((len(history), len(preferences)), np.nan)
    for line, entry in zip(lines, history, strict=True):
        if entry[kind] is None:
            continue
        here = entry["clients"]
        fresh = (np.array(entry[kind], dtype=float) * preferences[here]).sum(axis=1)
        now[here] = np.where(np.isfinite(fresh), fresh, now[here])
        line[:] = now
    return lines


def _over_clients(values: FloatArray, measure: Any) -> FloatArray:
    """A measure of each round's known values; numpy's own nan-functions warn when none is."""
    known = [row[np.isfinite(row)] for row in values]
    return np.array([measure(row) if len(row) else np.nan for row in known], dtype=float)
