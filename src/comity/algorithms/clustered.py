"""The base of algorithms with clusters: a partition of the clients as server state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import PrivateAttr

from comity.algorithms.base import Algorithm, Round
from comity.core.clusters import Clusters, Norm, Split, Threshold, chance, gains, is_small, size
from comity.core.rng import stream
from comity.core.typing import FloatArray, IntArray
from comity.settings import setting

_MOST = 100  # the similarities of more clients would fill the disk


def by_client(
    round: Round, members: Sequence[Sequence[int]], similarity: Callable[[IntArray], FloatArray]
) -> list[list[float | None]] | None:
    """Return the similarities inside clusters (clients x clients), for the history.

    Pairs of different clusters and absent clients have None. Of more than 100 clients nothing is
    recorded.

    Args:
        round: The present round.
        members: Client ids, one list per cluster.
        similarity: Maps indices of participants to their similarities.
    """
    if len(round.clients) > _MOST:
        return None
    matrix = np.full((len(round.clients), len(round.clients)), np.nan)
    place = {client: index for index, client in enumerate(round.clients)}
    for cluster in members:
        rows = np.flatnonzero(np.isin(round.participants, cluster))
        if len(rows):
            index = [place[round.participants[row]] for row in rows]
            matrix[np.ix_(index, index)] = similarity(rows).round(5)
    return [[None if np.isnan(value) else value for value in row] for row in matrix.tolist()]


class Clustered(Algorithm):
    """Algorithm whose server keeps a partition of the clients."""

    norm: Norm = setting(
        "l2",
        "size of a change, for the threshold: l2 over all entries, squared (l2), sum or mean of "
        "the tensors' l2 norms, rms over all entries",
    )
    warm_up: int = setting(
        0, "first rounds that never count as stalled (too few updates to judge)", at_least=0
    )
    split: Literal["threshold", "earned"] = setting(
        "threshold",
        "threshold: split every stalled cluster; earned: only if its two sides are unlike beyond "
        "chance",
    )
    significance: float = setting(
        0.05,
        "earned: largest probability of so clear a split among clients without groups",
        at_least=0.005,
        below=1,
    )
    merge: Literal["never", "earned"] = setting(
        "never",
        "earned: join two clusters whose clients gain by it for `patience` rounds in a row, and "
        "split none whose sides gain by staying together",
    )

    _clusters: Clusters | None = PrivateAttr(None)
    _likeness: FloatArray | None = PrivateAttr(None)

    def _partition(self, round: Round, likeness: Callable[[], FloatArray]) -> Clusters:
        """Return the present partition; in the first round all clients are together.

        Args:
            round: The present round.
            likeness: Returns the similarities of all updates, each measured from the model that
                its client started from; called where clusters may merge.
        """
        if self._clusters is None:
            self._clusters = Clusters(round.clients)
        if self.merge == "earned":
            self._likeness = likeness()
            self._clusters.compare(round.participants, self._likeness)
        return self._clusters

    def _join(self, round: Round, patience: int) -> None:
        """Join the two clusters that gain most by it, where clusters may merge.

        Args:
            round: The present round.
            patience: Rounds in a row in which they must have gained.
        """
        if self._clusters is not None and self._likeness is not None:
            moved = np.flatnonzero(round.sent.distance(round.start) > 1e-8)
            participants = [round.participants[row] for row in moved]
            self._clusters.join(participants, self._likeness[np.ix_(moved, moved)], patience)

    def _gains(self, sides: Sequence[IntArray]) -> bool:
        """Return whether two sides of a cluster gain by staying together, where they may merge."""
        if self._clusters is None or self._likeness is None or self._clusters.usual is None:
            return False
        return bool(gains(self._likeness, sides, self._clusters.usual)[0, 1] > 0)

    def _is_small(
        self,
        round: Round,
        change: Sequence[float],
        model: Sequence[float],
        threshold: Threshold,
    ) -> bool | None:
        """Return whether a change is at most the threshold; None in a warm-up round.

        Args:
            round: The present round.
            change: Squared norm of the change of each tensor.
            model: Squared norm of each tensor of the model that changed.
            threshold: See `Threshold`.
        """
        if round.number <= self.warm_up:
            return None
        entries = sum(tensor[0].numel() for tensor in round.sent.tensors.values())
        return is_small(
            size(change, entries, self.norm), size(model, entries, self.norm), threshold
        )

    def _sides(
        self,
        round: Round,
        rows: IntArray,
        similarity: FloatArray,
        bipartition: Callable[[FloatArray], Split],
    ) -> Split:
        """Return the two sides of a stalled cluster; None if it is to stay whole.

        Args:
            round: The present round.
            rows: The cluster's participants, as indices.
            similarity: Their similarities.
            bipartition: The rule that cuts a similarity matrix in two.
        """
        sides = bipartition(similarity)
        if sides is None or self._gains([rows[side] for side in sides]):
            return None
        if self.split == "threshold":
            return sides
        generator = stream(
            round.seed, "earned-split", round.number, round.participants[int(rows[0])]
        )
        earned = chance(similarity, bipartition, generator) <= self.significance
        return sides if earned else None

    def diagnostics(self) -> dict[str, Any]:
        return {} if self._clusters is None else {"clusters": self._clusters.members}

    def state(self) -> dict[str, Any]:
        return {} if self._clusters is None else self._clusters.state()

    def load(self, state: dict[str, Any]) -> None:
        if state:
            self._clusters = Clusters([])
            self._clusters.load(state)
