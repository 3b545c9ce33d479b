"""A partition of the clients that only ever gets finer: what CFL and FedPref keep on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StringConstraints

from comity.core.typing import IntArray

Threshold = (
    Annotated[float, Field(ge=0)] | Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?%$")]
)
"""How small a change counts as stalled: a norm (5.0) or a share of the model's norm ("2.5%")."""

Split = tuple[list[int], list[int]] | None


def is_small(change: float, norm: float, threshold: Threshold) -> bool:
    """Whether a change is at most the threshold, absolute or relative to a model's norm."""
    if isinstance(threshold, str):
        return 100.0 * change <= float(threshold.removesuffix("%")) * norm
    return change <= threshold


class Clusters:
    """Clusters of client ids, each with the number of rounds that it has stalled in a row."""

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

        ``stalled`` and ``split`` speak of places in ``present``; a None from ``stalled`` means
        that nobody learned, which says nothing. Absent members go with the larger side.
        """
        place = {client: row for row, client in enumerate(participants)}
        members: list[list[int]] = []
        waited: list[int] = []
        for cluster, wait in zip(self.members, self.waited, strict=True):
            here = [client for client in cluster if client in place]
            rows = np.array([place[client] for client in here], dtype=np.int64)
            verdict = stalled(rows) if len(here) >= 2 else None
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
            parts = [[here[i] for i in side] for side in sides]
            max(parts, key=len).extend(client for client in cluster if client not in place)
            members += [sorted(part) for part in parts]
            waited += [0, 0]
        self.members, self.waited = members, waited

    def state(self) -> dict[str, Any]:
        return {"members": self.members, "waited": self.waited}

    def load(self, state: dict[str, Any]) -> None:
        self.members, self.waited = state["members"], state["waited"]
