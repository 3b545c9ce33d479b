"""Who learns from whom: mixing matrices and the n x n algebra that algorithms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import torch
from scipy.cluster.hierarchy import linkage, to_tree
from scipy.spatial.distance import squareform

from comity.core.fleet import Fleet
from comity.core.typing import BoolArray, FloatArray, IntArray

_DENSE = 512  # up to this many clients a dense eigensolver is faster than an iterative one


@dataclass(frozen=True)
class Mixing:
    """Rows of weights over the clients that sent, and which row each client will get.

    A row is one server model: one shared by all, one a cluster, or one a client. Clients that
    the route does not name keep the server model that they had. With a ``base``, a row is a step
    along the clients' updates instead: base + Σ weight · (sent − start); such weights need not sum
    to one. With ``stored`` models, one of each client, rows are weights over all clients and over
    these models, not over what was sent.
    """

    weights: FloatArray
    route: Mapping[int, int] = field(default_factory=dict)
    base: Fleet | None = None
    stored: Fleet | None = None

    @classmethod
    def shared(cls, weights: FloatArray, receivers: Sequence[int]) -> Mixing:
        """One model for all receivers."""
        row = np.asarray(weights, dtype=np.float64)[None]
        return cls(row / row.sum(), dict.fromkeys(receivers, 0))

    @classmethod
    def personal(cls, weights: FloatArray, receivers: Sequence[int]) -> Mixing:
        """A model of its own for each receiver; rows are normalised."""
        return cls(row_normalised(weights), {client: row for row, client in enumerate(receivers)})

    @classmethod
    def step(cls, weights: FloatArray, receivers: Sequence[int], base: Fleet) -> Mixing:
        """One model for all receivers: ``base`` moved along the givers' updates."""
        row = np.asarray(weights, dtype=np.float64)[None]
        return cls(row, dict.fromkeys(receivers, 0), base)

    def check(self, givers: int) -> None:
        """The law of honest weights: finite, non-negative, and rows sum to one if not a step."""
        weights = self.weights
        givers = givers if self.stored is None else len(self.stored)
        if weights.shape[1] != givers:
            raise AssertionError(f"mixing has {weights.shape[1]} columns for {givers} givers")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise AssertionError("mixing weights must be finite and non-negative")
        if self.base is None and not np.allclose(weights.sum(axis=1), 1.0, atol=1e-9):
            raise AssertionError(f"mixing rows must sum to one, got {weights.sum(axis=1)}")


@dataclass(frozen=True)
class Pick:
    """Whole models, delivered unmixed: each row is a few givers, whose models arrive stacked."""

    givers: IntArray
    """Rows x models: places among the clients that sent."""
    senders: int
    route: Mapping[int, int] = field(default_factory=dict)

    @property
    def weights(self) -> FloatArray:
        """How much of a row each giver is, before its receiver has a say."""
        found = np.zeros((len(self.givers), self.senders))
        np.add.at(found, (np.arange(len(found))[:, None], self.givers), 1 / self.givers.shape[1])
        return found

    def check(self, givers: int) -> None:
        """Everybody who is picked has sent."""
        if self.senders != givers or not ((self.givers >= 0) & (self.givers < givers)).all():
            raise AssertionError(f"picked {self.givers} of {givers} givers")


TARGET = "target."
"""Target networks that travel are mixed like the networks that they belong to."""

Mixings = Mapping[str, Mixing | Pick]


def mixed(mixings: Mixings, sent: Fleet, start: Fleet) -> tuple[Fleet, dict[int, int]]:
    """The server models that mixings make of what was sent, and who gets which of them."""
    for mixing in mixings.values():
        mixing.check(len(sent))
    route, rows = _common_route(mixings)
    tensors = {}
    for name in sent:
        mixing = mixings[_key(mixings, name)]
        if isinstance(mixing, Pick):
            found = sent[name][torch.from_numpy(mixing.givers)]
        elif mixing.base is None:
            givers = sent if mixing.stored is None else mixing.stored
            found = Fleet({name: givers[name]}).mix(mixing.weights)[name]
        else:
            moved = Fleet({name: sent[name] - start[name]}).mix(mixing.weights)[name]
            # companions start where the model that they belong to is
            base = mixing.base[name] if name in mixing.base.tensors else start[name][:1]
            found = base + moved
        tensors[name] = found if rows is None else found[rows[_key(mixings, name)]]
    return Fleet(tensors), route


def who_from_whom(
    mixings: Mixings, sizes: Mapping[str, int], clients: Sequence[int], senders: Sequence[int]
) -> FloatArray:
    """How much each client takes from each, averaged over tensors by their size."""
    matrix = np.full((len(clients),) * 2, np.nan)
    sent = [clients.index(client) for client in senders]
    counts = dict.fromkeys(mixings, 0)
    for name, size in sizes.items():
        counts[_key(mixings, name)] += size
    own = [(mixings[key], count) for key, count in counts.items() if count]
    for client in next(iter(mixings.values())).route:
        shares = np.zeros(len(clients))
        for mixing, count in own:
            row = mixing.weights[mixing.route[client]] * count
            if isinstance(mixing, Mixing) and mixing.stored is not None:
                shares += row
            else:
                shares[sent] += row.reshape(len(senders), -1).sum(axis=1)
        matrix[clients.index(client)] = shares / max(shares.sum(), 1e-300)
    return matrix


def _key(mixings: Mixings, name: str) -> str:
    """Under which name a tensor's mixing is given: its own, the first pattern it fits, or all."""
    name = name.removeprefix(TARGET)
    return name if name in mixings else next(key for key in mixings if fnmatchcase(name, key))


def _common_route(
    mixings: Mixings,
) -> tuple[dict[int, int], dict[str, list[int]] | None]:
    """Who gets which server model; where tensors are routed apart, everybody has one of its own.

    Then the second part says which row of each mixing these models are made of.
    """
    routes = {key: dict(mixing.route) for key, mixing in mixings.items()}
    first = next(iter(routes.values()))
    if all(route == first for route in routes.values()):
        return first, None
    clients = sorted(first)
    rows = {key: [route[client] for client in clients] for key, route in routes.items()}
    return {client: place for place, client in enumerate(clients)}, rows


def row_normalised(weights: FloatArray) -> FloatArray:
    """Divide each row by its sum; a row without weight becomes the identity."""
    weights = np.array(weights, dtype=np.float64)
    empty = np.flatnonzero(weights.sum(axis=1) <= 0)
    weights[empty] = 0.0
    weights[empty, empty] = 1.0
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def cosine(gram: FloatArray) -> FloatArray:
    """Cosine similarities from inner products; a zero vector is similar to itself alone."""
    norms = np.sqrt(np.clip(gram.diagonal(), 0.0, None))
    similarity: FloatArray = gram / np.maximum(np.outer(norms, norms), 1e-12)
    np.clip(similarity, -1.0, 1.0, out=similarity)
    np.fill_diagonal(similarity, 1.0)
    return similarity


def linkage_bipartition(
    similarity: FloatArray, method: Literal["single", "complete"]
) -> tuple[list[int], list[int]]:
    """Two sides by agglomerative clustering.

    Single linkage minimises the largest similarity that crosses the cut (Sattler's optimal
    bipartition); complete linkage is what the official CFL code runs.
    """
    distance = 1.0 - (similarity + similarity.T) / 2
    np.fill_diagonal(distance, 0.0)
    root = to_tree(linkage(squareform(distance, checks=False), method=method))
    left, right = root.get_left(), root.get_right()
    if left is None or right is None:
        raise ValueError("a cluster needs two members to be split")
    sides = sorted(sorted(int(i) for i in side.pre_order()) for side in (left, right))
    return sides[0], sides[1]


def spectral_bipartition(similarity: FloatArray) -> tuple[list[int], list[int]] | None:
    """Two sides of a similarity graph by normalised spectral clustering; None without structure.

    Affinity is (1 + similarity) / 2, which stays connected where similarities are negative. The
    two leading eigenvectors are turned into sides by a pivoted QR factorisation (Damle et al.,
    2019), which needs no random start. At most two eigenvectors are ever computed.
    """
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
    if (degree <= 0).any():  # opposed to everybody: alone on one side
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
    if first.all() or not first.any():
        return None
    sides = sorted([np.flatnonzero(first).tolist(), np.flatnonzero(~first).tolist()])
    return sides[0], sides[1]
