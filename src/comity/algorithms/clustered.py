"""The base of algorithms with clusters: a partition of the clients as server state."""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from comity.algorithms.base import Algorithm, Round
from comity.core.clusters import Clusters


class Clustered(Algorithm):
    """Algorithm whose server keeps a partition of the clients."""

    _clusters: Clusters | None = PrivateAttr(None)

    def _partition(self, round: Round) -> Clusters:
        """Return the present partition; in the first round all clients are together."""
        if self._clusters is None:
            self._clusters = Clusters(round.clients)
        return self._clusters

    def diagnostics(self) -> dict[str, Any]:
        return {} if self._clusters is None else {"clusters": self._clusters.members}

    def state(self) -> dict[str, Any]:
        return {} if self._clusters is None else self._clusters.state()

    def load(self, state: dict[str, Any]) -> None:
        if state:
            self._clusters = Clusters([])
            self._clusters.load(state)
