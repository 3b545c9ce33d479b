"""A partition of the clients that only gets finer; CFL and FedPref keep one on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StringConstraints

from comity.core.typing import IntArray

Threshold = (
    Annotated[float, Field(ge=0)] | Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?%$")]
)
"""Largest change that counts as stalled: a norm (5.0) or a share of the model's norm ("2.5%")."""

Split = tuple[list[int], list[int]] | None
"""Two sides of a cluster, or None if it stays whole."""


def is_small(change: float, norm: float, threshold: Threshold) -> bool:
    """Return whether a change is at most the threshold, absolute or relative to a model's norm.

    Args:
        change: Norm of the change.
        norm: Norm of the model that changed, for a threshold in percent.
        threshold: See `Threshold`.
    """
    if isinstance(threshold, str):
        return 100.0 * change <= float(threshold.removesuffix("%")) * norm
    return change <= threshold


class Clusters:
    """Clusters of client ids, each with the number of rounds in a row that it has stalled.

    Args:
        clients: Ids of all clients; they start as one cluster.

    Attributes:
        members: Sorted client ids, one list per cluster.
        waited: Stalled rounds in a row, one number per cluster.
    """

    def __init__(self, clients: Sequence[int]) -> None:
        self.members: list[list[int]] = [sorted(clients)]
        self.waited: list[int] = [0]

    def refine(
        self,
        participants: Sequence[int],
        stalled: Callable[[IntArray], bool | None],
        split: Callable[[IntArray], Split],
        patience: int,
    ) -> None:
        """Split each cluster that has stalled for ``patience`` rounds in a row, at most once.

        Clusters with fewer than two participants wait. Absent members join the larger side.

        Args:
            participants: Ids of the clients that took part in this round.
            stalled: Maps indices into ``participants`` to whether these clients have stalled;
                None if they did not train, which does not count.
            split: Maps indices into ``participants`` to two sides of positions in that array, or
                None if they should stay together.
            patience: Stalled rounds in a row before a split.
        """
        row_of = {client: row for row, client in enumerate(participants)}
        members: list[list[int]] = []
        waited: list[int] = []
        for cluster, wait in zip(self.members, self.waited, strict=True):
            present = [client for client in cluster if client in row_of]
            rows = np.array([row_of[client] for client in present], dtype=np.int64)
            verdict = stalled(rows) if len(present) >= 2 else None
            if verdict is not None:
                wait = wait + 1 if verdict else 0
            sides: Split = None
            if verdict and wait >= patience:
                sides = split(rows)
                wait = 0
            if sides is None:
                members.append(cluster)
                waited.append(wait)
                continue
            parts = [[present[i] for i in side] for side in sides]
            max(parts, key=len).extend(client for client in cluster if client not in row_of)
            members += [sorted(part) for part in parts]
            waited += [0, 0]
        self.members, self.waited = members, waited

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        return {"members": self.members, "waited": self.waited}

    def load(self, state: dict[str, Any]) -> None:
        """Restore the values that `state` returned."""
        self.members, self.waited = state["members"], state["waited"]
