"""Mixing matrices (which client learns from which) and the n x n algebra of the algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
import torch

from comity.core.fleet import Fleet
from comity.core.typing import BoolArray, FloatArray, IntArray

_MOST_DRAWN = 100  # clients of whom it is recorded who learned from whom
_DENSE = 512  # up to this many clients a dense eigensolver is faster than an iterative one


@dataclass(frozen=True)
class Mixing:
    """Mixing matrix of one parameter group, and the row that each client receives.

    Each row makes one server model, Σ weight · sent: one for all clients, one per cluster or one
    per client.
    """

    weights: FloatArray
    """Rows x givers; the givers are the clients that sent, in their order. Non-negative, and rows
    sum to one, unless there is a ``base``."""
    route: Mapping[int, int] = field(default_factory=dict)
    """Client id -> row. A client without a row keeps what the server had for it in this group."""
    base: Fleet | None = None
    """Model (one row) from which a step starts. A row is then base + Σ weight · (sent − start), a
    step along the clients' updates, and its weights may be any finite numbers."""
    stored: Fleet | None = None
    """Models to mix in place of those that were sent, one per client of the federation; the
    columns of ``weights`` are then all clients."""

    @classmethod
    def shared(cls, weights: FloatArray, receivers: Sequence[int]) -> Mixing:
        """Return a mixing with one model for all receivers.

        Args:
            weights: One weight per giver; divided by their sum.
            receivers: Ids of the clients that receive the model.
        """
        row = np.asarray(weights, dtype=np.float64)[None]
        if (row < 0).any() or row.sum() == 0:
            raise ValueError(
                f"Mixing.shared: weights must be non-negative and not all zero, got {row[0]}"
            )
        return cls(row / row.sum(), dict.fromkeys(receivers, 0))

    @classmethod
    def personal(cls, weights: FloatArray, receivers: Sequence[int]) -> Mixing:
        """Return a mixing with one model per receiver.

        Args:
            weights: Receivers x givers, non-negative. Each row is divided by its sum; a row without
                weight becomes that of the identity.
            receivers: Ids of the clients that receive the rows, in the order of the rows.
        """
        weights = np.asarray(weights, dtype=np.float64)
        if weights.ndim != 2 or len(weights) != len(receivers):
            raise ValueError(
                f"Mixing.personal: weights must have one row per receiver ({len(receivers)}), got "
                f"shape {weights.shape}"
            )
        if (weights < 0).any():
            raise ValueError(
                f"Mixing.personal: weights must be non-negative, got {weights.min():g}"
            )
        return cls(row_normalised(weights), {client: row for row, client in enumerate(receivers)})

    @classmethod
    def step(cls, weights: FloatArray, receivers: Sequence[int], base: Fleet) -> Mixing:
        """Return a mixing with one model for all receivers: base + Σ weight · (sent − start).

        Args:
            weights: One weight per giver, used as they are; any finite numbers.
            receivers: Ids of the clients that receive the model.
            base: The model (one row) from which the step is taken.
        """
        row = np.asarray(weights, dtype=np.float64)[None]
        return cls(row, dict.fromkeys(receivers, 0), base)

    def check(self, givers: int) -> None:
        """Check the law of honest weights.

        Those of a mean are finite, non-negative and sum to one; those of a step are finite.

        Args:
            givers: Number of clients that sent.
        """
        weights = self.weights
        givers = givers if self.stored is None else len(self.stored)
        if weights.ndim != 2:
            raise AssertionError(f"mixing weights must be rows x givers, got shape {weights.shape}")
        if not all(0 <= row < len(weights) for row in self.route.values()):
            raise AssertionError(f"the mixing's route names rows that its {len(weights)} lack")
        if weights.shape[1] != givers:
            raise AssertionError(f"mixing has {weights.shape[1]} columns for {givers} givers")
        if not np.isfinite(weights).all():
            raise AssertionError("mixing weights must be finite")
        if self.base is not None:
            if len(self.base) != 1:
                raise AssertionError(f"the base of a step must have one row, got {len(self.base)}")
            return
        if (weights < 0).any():
            raise AssertionError("mixing weights must be non-negative; only a step may have others")
        if not np.allclose(weights.sum(axis=1), 1.0, atol=1e-9):
            raise AssertionError(f"mixing rows must sum to one, got {weights.sum(axis=1)}")


@dataclass(frozen=True)
class Pick:
    """Choice of whole models, delivered unmixed: each row is a stack of some givers' models."""

    givers: IntArray
    """Rows x models: indices among the clients that sent."""
    senders: int
    """Number of clients that sent."""
    route: Mapping[int, int] = field(default_factory=dict)
    """Client id -> row. A client without a row keeps what the server had for it in this group."""

    @property
    def weights(self) -> FloatArray:
        """Share of each giver in a row's models (rows x senders), before the receiver chooses."""
        shares = np.zeros((len(self.givers), self.senders))
        np.add.at(shares, (np.arange(len(shares))[:, None], self.givers), 1 / self.givers.shape[1])
        return shares

    def check(self, givers: int) -> None:
        """Check that every picked giver is among the ``givers`` clients that sent."""
        if self.senders != givers or not ((self.givers >= 0) & (self.givers < givers)).all():
            raise AssertionError(f"picked {self.givers} of {givers} givers")


TARGET = "target."
"""Prefix of target networks; they are mixed like the networks that they belong to."""

Mixings = Mapping[str, Mixing | Pick]
"""Mixings by name of a tensor or pattern of names (``"*"``, ``"model.head.*"``)."""


def mixed(
    mixings: Mixings,
    sent: Fleet,
    start: Fleet,
    previous: Callable[[Sequence[str], Sequence[int]], Fleet] | None = None,
) -> tuple[Fleet, dict[int, int]]:
    """Return the server models that mixings make, and the row of them that each client receives.

    A client that some mixings name and others do not keeps its previous tensors in the groups of
    the others. Clients that no mixing names have no row.

    Args:
        mixings: The mixing of each group of tensors.
        sent: Models sent by the clients, one row per sender.
        start: The models from which these clients started the round, one row per sender.
        previous: ``(names, clients)`` -> these tensors of the server models of these clients before
            this mixing, one row per client; needed only where mixings name different clients.
    """
    _check(mixings, sent)
    route, one_for_each = _common_route(mixings)
    tensors = {}
    for name in sent:
        mixing = mixings[key_of(mixings, name)]
        if isinstance(mixing, Pick):
            models = sent[name][torch.as_tensor(mixing.givers)]
        elif mixing.base is None:
            givers = sent if mixing.stored is None else mixing.stored
            models = Fleet({name: givers[name]}).mix(mixing.weights)[name]
        else:
            step = Fleet({name: sent[name] - start[name]}).mix(mixing.weights)[name]
            # tensors that the base lacks, such as target networks, step from their start
            base = mixing.base[name] if name in mixing.base.tensors else start[name][:1]
            models = base + step
        if one_for_each:
            models = models[[mixing.route.get(client, -1) for client in route]]
            keeping = [client for client in route if client not in mixing.route]
            if keeping:
                assert previous is not None, "mixings name different clients"
                models[[route[client] for client in keeping]] = previous([name], keeping)[name]
        tensors[name] = models
    return Fleet(tensors), route


def who_from_whom(
    mixings: Mixings, sizes: Mapping[str, int], clients: Sequence[int], senders: Sequence[int]
) -> FloatArray | None:
    """Return how much each client takes from each (clients x clients), averaged over tensors.

    Rows sum to one; rows of clients that receive nothing are NaN. Tensors that a client keeps do
    not count; negative weights of a step count by their size. None for more than 100 clients: so
    large a matrix makes no picture and would fill the disk.

    Args:
        mixings: The mixing of each group of tensors.
        sizes: Number of entries of each tensor that was sent, by name: its weight in the average.
        clients: Ids of all clients.
        senders: Ids of the clients that sent, in the order of the mixings' columns.
    """
    if len(clients) > _MOST_DRAWN:
        return None
    matrix = np.full((len(clients),) * 2, np.nan)
    columns = [clients.index(client) for client in senders]
    counts = dict.fromkeys(mixings, 0)
    for name, size in sizes.items():
        counts[key_of(mixings, name)] += size
    counted = [(mixings[key], count) for key, count in counts.items() if count]
    for client in _common_route(mixings)[0]:
        shares = np.zeros(len(clients))
        for mixing, count in counted:
            if client not in mixing.route:
                continue
            row = np.abs(mixing.weights[mixing.route[client]]) * count
            if isinstance(mixing, Mixing) and mixing.stored is not None:
                shares += row
            else:
                shares[columns] += row.reshape(len(senders), -1).sum(axis=1)
        matrix[clients.index(client)] = shares / max(shares.sum(), 1e-300)
    return matrix


def key_of(mixings: Mixings, name: str) -> str:
    """Return the key of a tensor's mixing: its own name, or the first pattern that matches it."""
    name = name.removeprefix(TARGET)
    keys = [name] if name in mixings else [key for key in mixings if fnmatchcase(name, key)]
    if not keys:
        raise AssertionError(
            f"no mixing matches the tensor {name}, only {', '.join(mixings) or 'nothing'}; end "
            'with "*" for all others'
        )
    return keys[0]


def _check(mixings: Mixings, sent: Fleet) -> None:
    """Refuse what is no mixing, or has other shapes than what was sent."""
    expected = 'mix must return mixings by tensor name or pattern, {"*": Mixing.shared(…)}'
    if not isinstance(mixings, Mapping):
        raise TypeError(f"{expected}; got {type(mixings).__name__}")
    for key, mixing in mixings.items():
        if not isinstance(mixing, Mixing | Pick):
            raise TypeError(f"{expected}; got {type(mixing).__name__} for {key}")
        try:
            mixing.check(len(sent))
        except AssertionError as error:
            raise AssertionError(f"what mix returned for {key}: {error}") from None


def _common_route(mixings: Mixings) -> tuple[dict[int, int], bool]:
    """Return one route for all tensors, and whether it has one row per client.

    Mixings with different routes need one server model per client that any of them names;
    otherwise the common route is that of every mixing.
    """
    routes = [dict(mixing.route) for mixing in mixings.values()]
    if all(route == routes[0] for route in routes):
        return routes[0], False
    clients = sorted({client for route in routes for client in route})
    return {client: row for row, client in enumerate(clients)}, True


def row_normalised(weights: FloatArray) -> FloatArray:
    """Divide each row by its sum; a row without weight becomes that of the identity."""
    weights = np.array(weights, dtype=np.float64)
    empty = np.flatnonzero(weights.sum(axis=1) <= 0)
    weights[empty] = 0.0
    weights[empty, empty] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def squared_distances(gram: FloatArray) -> FloatArray:
    """Return ‖x_i − x_j‖² (n x n) from inner products."""
    squares = gram.diagonal()
    return np.clip(squares[:, None] + squares[None] - 2 * gram, 0.0, None)


def cosine(gram: FloatArray) -> FloatArray:
    """Return cosine similarities (n x n) from inner products.

    A zero vector has similarity 1 with itself and 0 with every other vector.
    """
    norms = np.sqrt(np.clip(gram.diagonal(), 0.0, None))
    similarity: FloatArray = gram / np.maximum(np.outer(norms, norms), 1e-12)
    np.clip(similarity, -1.0, 1.0, out=similarity)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def linkage_bipartition(
    similarity: FloatArray, method: Literal["single", "complete"]
) -> tuple[list[int], list[int]]:
    """Return the two sides of a similarity matrix by agglomerative clustering.

    Args:
        similarity: n x n similarities, at most 1; made symmetric.
        method: ``"single"`` minimises the largest similarity across the cut (Sattler's optimal
            bipartition); ``"complete"`` is the linkage of the official CFL code.
    """
    distance = 1.0 - (similarity + similarity.T) / 2
    np.fill_diagonal(distance, 0.0)
    from scipy.cluster.hierarchy import linkage, to_tree  # slow to import, and few runs need it
    from scipy.spatial.distance import squareform

    root = to_tree(linkage(squareform(distance, checks=False), method=method))
    left, right = root.get_left(), root.get_right()
    if left is None or right is None:
        raise ValueError("a cluster needs two members to be split")
    sides = sorted(sorted(int(i) for i in side.pre_order()) for side in (left, right))
    return sides[0], sides[1]


def spectral_bipartition(similarity: FloatArray) -> tuple[list[int], list[int]] | None:
    """Return two sides of a similarity graph by normalised spectral clustering, if it has any.

    Affinity is (1 + similarity) / 2, which stays connected where similarities are negative. The
    two leading eigenvectors, the only ones computed, are turned into sides by a pivoted QR
    factorisation (Damle et al., 2019), which needs no random start. None if all similarities are
    alike.
    """
    import scipy.linalg  # slow to import, and few runs need it
    import scipy.sparse.linalg

    n = len(similarity)
    if n < 2:
        return None
    if n == 2:
        return [0], [1]
    off_diagonal = similarity.ravel()[1:].reshape(n - 1, n + 1)[:, :-1]
    if np.ptp(off_diagonal) < 1e-6:
        return None
    affinity = similarity + similarity.T
    affinity += 2.0
    affinity /= 4.0
    np.fill_diagonal(affinity, 0.0)
    degree = affinity.sum(axis=1)
    if (degree <= 0).any():  # a client opposed to all others is one side
        alone = int(np.argmin(degree))
        return _sides(np.arange(n) == alone)
    scale = 1.0 / np.sqrt(degree)
    affinity *= scale[:, None]
    affinity *= scale[None, :]
    if n <= _DENSE:
        vectors = scipy.linalg.eigh(affinity, subset_by_index=[n - 2, n - 1])[1]
    else:
        start = np.cos(np.arange(n, dtype=np.float64))  # fixed, and not the leading eigenvector
        vectors = scipy.sparse.linalg.eigsh(affinity, k=2, which="LA", v0=start)[1]
    embedding = vectors * scale[:, None]
    pivots = scipy.linalg.qr(embedding.T, pivoting=True, mode="r")[1][:2]
    left, _, right = scipy.linalg.svd(embedding[pivots].T)
    labels = np.argmax(np.abs(embedding @ (left @ right)), axis=1)
    return _sides(labels == labels[0])


def _sides(first: BoolArray) -> tuple[list[int], list[int]] | None:
    """Return members and non-members of the first side; None if one of them is empty."""
    if first.all() or not first.any():
        return None
    sides = sorted([np.flatnonzero(first).tolist(), np.flatnonzero(~first).tolist()])
    return sides[0], sides[1]
