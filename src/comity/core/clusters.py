"""A partition of the clients, and the rules by which clusters of CFL and FedPref split and join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StringConstraints

from comity.core.typing import FloatArray, IntArray

Threshold = (
    Annotated[float, Field(ge=0)] | Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?%$")]
)
"""Largest change that counts as stalled: a norm (5.0) or a share of the model's norm ("2.5%")."""

Split = tuple[list[int], list[int]] | None
"""Two sides of a cluster, or None if it stays whole."""

Norm = Literal["l2", "squared", "sum", "mean", "rms"]
"""Size of a change: norm of all entries, its square, sum or mean of the norms of the tensors, or
root of the mean squared entry."""

_DRAWS = 199  # matrices without groups that a split is compared with
_WIDEST = 2000  # more independent entries than this change nothing
_FIT = 30  # steps that halve the distance to a fixed point


def size(squares: Sequence[float], entries: int, norm: Norm) -> float:
    """Return the size of a change or model.

    Args:
        squares: Squared Euclidean norm of each tensor.
        entries: Number of entries of all tensors together.
        norm: See `Norm`.
    """
    if norm in ("sum", "mean"):
        total = sum(sqrt(square) for square in squares)
        return total if norm == "sum" else total / len(squares)
    total = sum(squares)
    if norm == "squared":
        return total
    return sqrt(total) if norm == "l2" else sqrt(total / entries)


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


def separation(excess: FloatArray, sides: Split) -> float:
    """Return how much more alike two sides are inside than across, as a t statistic has it.

    (mean of pairs inside − mean of pairs across) · √(inside · across / (inside + across)), where
    the root has the numbers of pairs; −∞ if there are no sides or no pairs inside.

    Args:
        excess: n x n, symmetric; the diagonal does not count.
        sides: Indices of the two sides.
    """
    if sides is None or len(excess) < 3:
        return -np.inf
    second = np.isin(np.arange(len(excess)), sides[1])
    rows, columns = np.triu_indices(len(excess), 1)
    pairs, across = excess[rows, columns], second[rows] != second[columns]
    count = int(across.sum())
    root = sqrt(count * (len(pairs) - count) / len(pairs))
    return float(pairs[~across].mean() - pairs[across].mean()) * root


def common_loads(similarity: FloatArray) -> FloatArray:
    """Return k ≥ 0 (n) such that k_i · k_j is near the similarity of each pair i ≠ j.

    This is what similarities look like if updates have one direction in common and are otherwise
    independent: k_i is the share of client i's update along that direction.
    """
    n = len(similarity)
    pairs = similarity - np.diag(similarity.diagonal())
    loads = np.full(n, sqrt(max(float(pairs.sum()), 0.0) / (n * (n - 1))))
    for _ in range(_FIT):
        total = float(loads @ loads)
        if total <= 1e-12:
            return np.zeros(n)
        best = pairs @ loads / np.maximum(total - loads**2, 1e-12)
        loads = (loads + np.clip(best, 0.0, 0.999)) / 2
    return loads


def chance(
    similarity: FloatArray,
    bipartition: Callable[[FloatArray], Split],
    generator: np.random.Generator,
) -> float:
    """Return how probable a split as clear as this one is among clients without groups.

    The best cut of any matrix looks better than random cuts of it, so the split is compared with
    the best cuts, by the same rule, of matrices without groups: cosines of vectors with the same
    share of a common direction (`common_loads`) and otherwise independent normal entries, as many
    as make similarities vary as much as the real ones do. The measure is the `separation` of the
    similarities minus their common part k_i · k_j. The value is the share of matrices, the real
    one included, that reach the real one's. Up to three clients fit one direction exactly: 1.

    Args:
        similarity: n x n, symmetric.
        bipartition: The rule that cuts a similarity matrix in two.
        generator: Source of the vectors.
    """
    n = len(similarity)
    if n < 4:
        return 1.0
    loads = common_loads(similarity)
    excess = similarity - np.outer(loads, loads)
    rest = 1.0 - loads**2
    upper = np.triu_indices(n, 1)
    variance = float(np.square(excess[upper]).sum()) / (len(upper[0]) - n)
    entries = float(np.outer(rest, rest)[upper].mean()) / max(variance, 1e-12)
    width = int(np.clip(round(entries), 2, _WIDEST))
    real = separation(excess, bipartition(similarity))
    count = 1
    for _ in range(_DRAWS):
        own = generator.standard_normal((n, width)) * np.sqrt(rest / width)[:, None]
        vectors = np.column_stack([loads, own])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        matrix = vectors @ vectors.T
        drawn = common_loads(matrix)
        count += separation(matrix - np.outer(drawn, drawn), bipartition(matrix)) >= real - 1e-9
    return count / (_DRAWS + 1)


def gains(similarity: FloatArray, clusters: Sequence[IntArray], usual: float) -> FloatArray:
    """Return what each pair of clusters gains if both use the mean of all their updates (k x k).

    Updates are unit vectors: a direction of the cluster and noise. A mean over more clients has
    less noise, a mean over two clusters is off the direction of each. With a and b clients, mean
    similarities W_A and W_B of pairs inside, C of pairs across, noise is N = 1 − W, the squared
    distance of the two directions D = W_A + W_B − 2C, and the squared errors of all a + b clients
    together shrink by (b N_A + a N_B − a b D) / (a + b): D must be less than N_A/a + N_B/b.
    Clusters with opposite updates, C ≤ 0, gain nothing (−∞).

    Args:
        similarity: Cosines of the clients' updates (n x n).
        clusters: Indices of the clients of each cluster, at least one per cluster.
        usual: Mean similarity inside a cluster, for clusters with a single client.
    """
    belongs = np.zeros((len(clusters), len(similarity)))
    for row, members in zip(belongs, clusters, strict=True):
        row[members] = 1.0
    counts = belongs.sum(axis=1)
    sums = belongs @ similarity @ belongs.T
    pairs = counts * (counts - 1)
    inside = np.where(pairs > 0, (sums.diagonal() - counts) / np.maximum(pairs, 1), usual)
    inside = np.clip(inside, 0.0, None)  # the squared length of a direction
    across = sums / np.outer(counts, counts)
    distance = inside[:, None] + inside[None] - 2 * across
    a, b, noise = counts[:, None], counts[None], 1.0 - inside
    gain = (b * noise[:, None] + a * noise[None] - a * b * distance) / (a + b)
    return np.where(across > 0, gain, -np.inf)


def labels_of(partition: Sequence[Sequence[int]], clients: int) -> IntArray:
    """Return the number of each client's cluster.

    Args:
        partition: Client ids, one list per cluster.
        clients: Number of clients.
    """
    labels = np.zeros(clients, dtype=np.int64)
    for number, members in enumerate(partition):
        labels[list(members)] = number
    return labels


def adjusted_rand(first: Sequence[int] | IntArray, second: Sequence[int] | IntArray) -> float:
    """Return the adjusted Rand index of two partitions (Hubert and Arabie, 1985).

    1: the same partition; 0: as many pairs in agreement as by chance.

    Args:
        first: Label of each client in one partition.
        second: Label of each client in the other.
    """
    labels = [np.unique(side, return_inverse=True)[1] for side in (first, second)]
    table = np.zeros([side.max() + 1 for side in labels])
    np.add.at(table, tuple(labels), 1)

    def pairs(counts: FloatArray) -> float:
        return float((counts * (counts - 1) / 2).sum())

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = rows * columns / max(pairs(np.array([len(labels[0])])), 1.0)
    largest = (rows + columns) / 2
    return 1.0 if largest == expected else (both - expected) / (largest - expected)


class Clusters:
    """Clusters of client ids, each with the number of rounds in a row that it has stalled.

    Args:
        clients: Ids of all clients; they start as one cluster.

    Attributes:
        members: Sorted client ids, one list per cluster.
        waited: Stalled rounds in a row, one number per cluster.
        gained: Rounds in a row in which two clusters would have gained together, by their members.
        usual: Mean similarity of pairs inside clusters, as `compare` last saw any.
    """

    def __init__(self, clients: Sequence[int]) -> None:
        self.members: list[list[int]] = [sorted(clients)]
        self.waited: list[int] = [0]
        self.gained: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self.usual: float | None = None

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
        members: list[list[int]] = []
        waited: list[int] = []
        groups = zip(self.members, self.waited, self._rows(participants), strict=True)
        for cluster, wait, rows in groups:
            present = [participants[row] for row in rows]
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
            max(parts, key=len).extend(client for client in cluster if client not in present)
            members += [sorted(part) for part in parts]
            waited += [0, 0]
        self.members, self.waited = members, waited

    def compare(self, participants: Sequence[int], similarity: FloatArray) -> None:
        """Take note of the mean similarity inside clusters, where two members are present.

        Args:
            participants: Ids of some clients.
            similarity: Similarities of their updates.
        """
        groups = [rows for rows in self._rows(participants) if len(rows) > 1]
        pairs = sum(len(rows) * (len(rows) - 1) for rows in groups)
        if pairs:
            total = sum(float(similarity[np.ix_(rows, rows)].sum()) - len(rows) for rows in groups)
            self.usual = total / pairs

    def join(self, participants: Sequence[int], similarity: FloatArray, patience: int) -> None:
        """Join the two clusters that gain most, of those that do for ``patience`` rounds in a row.

        Rounds without participants of both do not count. Once joined, a cluster starts to wait
        anew.

        Args:
            participants: Ids of the clients that trained in this round.
            similarity: Similarities of their updates.
            patience: Rounds in a row in which two clusters must gain.
        """
        rows = self._rows(participants)
        seen = [place for place, present in enumerate(rows) if len(present)]
        keys = [tuple(cluster) for cluster in self.members]
        places = {key: place for place, key in enumerate(keys)}
        gained = {
            pair: count
            for pair, count in self.gained.items()
            if places.keys() >= set(pair) and not all(len(rows[places[key]]) for key in pair)
        }
        best, chosen = 0.0, None
        if len(seen) > 1 and self.usual is not None:
            gain = np.triu(gains(similarity, [rows[place] for place in seen], self.usual), 1)
            for one, other in np.argwhere(gain > 0).tolist():
                pair = keys[seen[one]], keys[seen[other]]
                gained[pair] = self.gained.get(pair, 0) + 1
                if gained[pair] >= patience and gain[one, other] > best:
                    best, chosen = gain[one, other], (seen[one], seen[other])
        self.gained = gained
        if chosen is not None:
            first, second = chosen
            self.members[first] = sorted(self.members[first] + self.members.pop(second))
            self.waited[first] = 0
            self.waited.pop(second)

    def _rows(self, participants: Sequence[int]) -> list[IntArray]:
        """Return the participants of each cluster, as indices in the order of their ids."""
        row_of = {client: row for row, client in enumerate(participants)}
        return [
            np.array([row_of[client] for client in cluster if client in row_of], dtype=np.int64)
            for cluster in self.members
        ]

    def state(self) -> dict[str, Any]:
        """Return plain values for a checkpoint."""
        gained = [[*map(list, pair), count] for pair, count in self.gained.items()]
        return {
            "members": self.members,
            "waited": self.waited,
            "gained": gained,
            "usual": self.usual,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore the values that `state` returned."""
        self.members, self.waited, self.usual = state["members"], state["waited"], state["usual"]
        self.gained = {
            (tuple(first), tuple(second)): count for first, second, count in state["gained"]
        }
