"""Results of every model for every client, as numbers to draw and to print."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comity.core.typing import FloatArray
from comity.runs.group_schema import Cross


class Served(NamedTuple):
    """Value of one client's own model to it, and of those of others."""

    client: str
    own: float | None
    """Value of its own model; None where only an exported model was tried."""
    best: str
    """Name of the model that serves it best."""
    best_value: float
    others: float | None
    """Mean value of the models of others; None if there are none."""
    trivial: float | None


def values(cross: Cross) -> FloatArray:
    """Return values by the preference of the client whose data it is (models x clients)."""
    # None, where a score is undefined, becomes nan
    return np.array(cross["scalarised_by_client"], dtype=np.float64)


def has_own_models(cross: Cross) -> bool:
    """Return whether the models are the clients' own, in their order."""
    return cross["models"] == cross["clients"]


def served(cross: Cross) -> list[Served]:
    """Return how each client is served; a client keeps its own model where another is as good."""
    matrix, rows = values(cross), []
    for client, name in enumerate(cross["clients"]):
        column = matrix[:, client]
        known = np.flatnonzero(np.isfinite(column))
        mine = has_own_models(cross)
        best = int(known[column[known].argmax()]) if len(known) else 0
        if mine and column[client] >= column[best]:
            best = client
        others = [column[model] for model in known if model != client or not mine]
        rows.append(
            Served(
                name,
                float(column[client]) if mine else None,
                cross["models"][best],
                float(column[best]),
                float(np.mean(others)) if others else None,
                cross["trivial"][client],
            )
        )
    return rows
