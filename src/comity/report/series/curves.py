"""Curves of a run over its rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from comity.core.typing import FloatArray, IntArray
from comity.report.measures import has_single_objective
from comity.report.terms import terms_of
from comity.runs.directory import Run
from comity.runs.schema import HistoryEntry

Kind = Literal["kept", "trained", "received"]
KINDS: tuple[Kind, ...] = ("kept", "trained", "received")
"""Kinds of models that are validated in a round."""
MEANINGS: dict[Kind, str] = {
    "kept": "kept (best validated)",
    "trained": "after local training",
    "received": "as received",
}


@dataclass(frozen=True)
class Curves:
    """Scalarised validation values by round and client; absent clients keep their last value."""

    rounds: IntArray
    steps: FloatArray
    """Mean steps per client so far, training and validation."""
    values: dict[Kind, FloatArray]
    """For each kind of model (rounds x clients); NaN while unknown."""
    optimum: FloatArray | None
    """The best possible scalarised value of each client, where it is known."""

    def mean(self, kind: Kind) -> FloatArray:
        """Return the mean over clients, one per round."""
        return _over_clients(self.values[kind], np.mean)

    def quartiles(self, kind: Kind) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper quartile over clients, one per round."""
        low = _over_clients(self.values[kind], lambda row: np.quantile(row, 0.25))
        return low, _over_clients(self.values[kind], lambda row: np.quantile(row, 0.75))

    def regret(self, kind: Kind) -> FloatArray | None:
        """Return the mean distance to the optimum, one per round; None if that is unknown."""
        if self.optimum is None:
            return None
        return _over_clients(np.maximum(self.optimum - self.values[kind], 0.0), np.mean)


def curves(run: Run) -> Curves:
    """Return the curves of a finished run."""
    clients = run.results["per_client"]
    preferences = preferences_of(run)
    places = {client["client"]: place for place, client in enumerate(clients)}  # a site has one
    history: list[HistoryEntry] = [
        {**entry, "clients": [places[client] for client in entry["clients"]]}
        for entry in run.history
    ]
    known = all("optimum" in client for client in clients)
    return Curves(
        rounds=np.array([entry["round"] for entry in history], dtype=np.int64),
        steps=_steps(history, len(clients)),
        values={kind: _values(history, kind, preferences) for kind in KINDS},
        optimum=np.array([client["optimum"] for client in clients]) if known else None,
    )


def preferences_of(run: Run) -> FloatArray:
    """Return the clients' preferences, one row per client."""
    return np.array([client["preference"] for client in run.results["per_client"]], dtype=float)


def objectives_of(run: Run) -> FloatArray:
    """Return the objective vectors of the clients' kept models, one row per client."""
    rows = [list(client["objectives"].values()) for client in run.results["per_client"]]
    return np.array(rows, dtype=float)


def validation_label(run: Run) -> str:
    """Return the y label of curves of validated models."""
    if has_single_objective(run.results):
        return f"{run.configuration.get_problem().objectives[0].name} (validation)"
    return f"scalarised {terms_of(run.results).value} (validation)"


def _steps(history: Sequence[HistoryEntry], clients: int) -> FloatArray:
    steps = np.zeros(clients)
    means = []
    for entry in history:
        steps[entry["clients"]] = np.add(entry["steps"], entry["validation_steps"])
        means.append(steps.mean())
    return np.array(means)


def _values(history: Sequence[HistoryEntry], kind: Kind, preferences: FloatArray) -> FloatArray:
    """Return scalarised values, carried forward; NaN in a round without any vector."""
    current = np.full(len(preferences), np.nan)
    values = np.full((len(history), len(preferences)), np.nan)
    for line, entry in zip(values, history, strict=True):
        if entry[kind] is None:
            continue
        clients = entry["clients"]
        fresh = (np.array(entry[kind], dtype=float) * preferences[clients]).sum(axis=1)
        current[clients] = np.where(np.isfinite(fresh), fresh, current[clients])
        line[:] = current
    return values


def _over_clients(values: FloatArray, measure: Callable[[FloatArray], Any]) -> FloatArray:
    """Return a measure of each round's known values; numpy's nan-functions warn without any."""
    known = [row[np.isfinite(row)] for row in values]
    return np.array([measure(row) if len(row) else np.nan for row in known], dtype=float)
