"""The server's part of pFedRLLA: all clients' last models, embeddings, the agent, its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from comity.algorithms.pfedrlla.agent_file import AgentBundle
from comity.algorithms.pfedrlla.encoder import WIDTH, tokens
from comity.core.fleet import Fleet
from comity.core.mixing import row_normalised
from comity.core.storage import strip_prefix
from comity.core.typing import Float32Array, FloatArray, NamedArrays

ALLOCATOR = "allocator"
"""Prefix of the arrays that belong to none of the other parts."""


class Embedded(NamedTuple):
    """Representation of the clients on the server, one row per client."""

    embeddings: FloatArray
    tokens: FloatArray
    """Input of the embeddings."""


def participants_of(arrays: NamedArrays) -> int:
    """Return the number of participants of a round from a saved state (`Allocator.state`)."""
    return int(arrays[f"{ALLOCATOR}.participants"].item())


def clients_of(arrays: NamedArrays) -> list[int]:
    """Return the ids of all clients from a saved state (`Allocator.state`)."""
    return [int(client) for client in arrays[f"{ALLOCATOR}.clients"]]


def embedded(arrays: NamedArrays) -> Embedded | None:
    """Return the embeddings in a saved state (`Allocator.state`); None where there are none."""
    allocator = strip_prefix(arrays, f"{ALLOCATOR}.")
    if "states" not in allocator:
        return None
    tokens = allocator["tokens"].reshape(len(allocator["tokens"]), -1)
    return Embedded(allocator["states"][:, -WIDTH:].astype(float), tokens.astype(float))


def likeness(embeddings: FloatArray) -> FloatArray:
    """Return V: (1 + cos(e_k, e_j)) / 2 per giver, 1 for the client itself, which is last."""
    norms = np.linalg.norm(embeddings, axis=1)
    cosines = embeddings @ embeddings[-1] / np.maximum(norms * norms[-1], 1e-12)
    alike = np.append((1 + cosines[:-1]) / 2, 1.0)
    return np.asarray(alike / alike.sum())


def reward(
    score: float, before: float, weights: FloatArray, alike: FloatArray, target: float
) -> tuple[float, float, float]:
    """Return r₁ = exp(acc − acc_tar) − 1, r₂ = acc − acc_pre and r₃ = −‖A − V‖²."""
    apart = float(np.square(weights - alike).sum())
    return float(np.exp(score - target)) - 1.0, score - before, -apart


class Allocator:
    """Decides who takes how much of whose model; givers are the participants of the last round.

    Args:
        clients: ids of all clients; rows are in their order.
        participants: the number of clients that are asked in a round.
        initial: the common initial model, one row.
        heads: names of the tensors of a head.
        team: the agent and its encoder.
    """

    def __init__(
        self,
        clients: Sequence[int],
        participants: int,
        initial: Fleet,
        heads: Sequence[str],
        team: AgentBundle,
    ) -> None:
        n, slots = len(clients), participants + 1
        self.clients, self.participants, self._heads = tuple(clients), participants, heads
        self.agent, self.encoder, self._scaled = team
        self.stored = initial.select([0] * n) if n > 1 else initial.clone()
        self._sizes = np.zeros(n)
        self._tokens = np.repeat(tokens(initial.group(*heads), self._scaled), n, axis=0)
        self._previous: list[int] = []
        self._states = np.zeros((n, slots * WIDTH), np.float32)
        self._offered = np.zeros((n, slots))

    @property
    def tokens(self) -> Float32Array:
        """Tokens of all clients' heads (clients, matrices, ROWS²)."""
        return self._tokens

    def take(self, participants: Sequence[int], sent: Fleet, sizes: FloatArray) -> None:
        """Store the participants' models and amounts of data: they are the next givers."""
        places = self._previous = [self.clients.index(client) for client in participants]
        self.stored.put(places, sent)
        self._sizes[places] = sizes
        self._tokens[places] = tokens(sent.group(*self._heads), self._scaled)

    def observe(self) -> Float32Array:
        """Return one state per client: the givers' embeddings, then its own.

        Where fewer clients took part than were asked, its own embedding fills the empty slots.
        """
        own = self.encoder.embed(self._tokens)
        rows = np.empty((len(own), self.participants + 1, WIDTH), np.float32)
        rows[:] = own[:, None]
        rows[:, : len(self._previous)] = own[self._previous]
        self._states = rows.reshape(len(own), -1)
        return self._states

    def offer(self, weights: FloatArray) -> FloatArray:
        """Clip and normalise weights over slots, a row per client; return weights over clients.

        A client that has not trained yet has nothing to add to what it gets.
        """
        weights, untrained = np.clip(weights, 0.0, None), self._sizes == 0
        weights[:, len(self._previous) : -1] = 0.0
        weights[untrained, -1] = 0.0
        alone = weights.sum(axis=1) <= 0
        weights[alone & ~untrained, -1] = 1.0
        weights[alone & untrained, : len(self._previous)] = 1.0
        self._offered = weights / weights.sum(axis=1, keepdims=True)
        return self.spread()

    def spread(self) -> FloatArray:
        """Return what was offered last, as weights over clients."""
        return self._spread(self._offered)

    def by_size(self) -> FloatArray:
        """Return weights over clients by amount of data, of the givers and the client itself."""
        n, slots = self._offered.shape
        weights = np.zeros((n, slots))
        weights[:, : len(self._previous)] = self._sizes[self._previous]
        weights[:, -1] = self._sizes
        return row_normalised(self._spread(weights))

    def mean(self) -> FloatArray:
        """Return equal weights over the givers, for all clients alike, as in FedAvg."""
        weights = np.zeros((len(self.clients),) * 2)
        weights[:, self._previous] = 1 / len(self._previous)
        return weights

    def _spread(self, weights: FloatArray) -> FloatArray:
        """Turn weights over slots into weights over clients: a giver counts twice for itself."""
        matrix = np.zeros((len(weights), len(self.clients)))
        matrix[:, self._previous] = weights[:, : len(self._previous)]
        matrix[np.diag_indices_from(matrix)] += weights[:, -1]
        return matrix

    def rewarded(
        self, client: int, score: float, before: float, target: float, betas: Sequence[float]
    ) -> tuple[float, float, float]:
        """Return the terms of a client's reward; the agent remembers the sum, weighted by betas."""
        place = self.clients.index(client)
        state, weights = self._states[place], self._offered[place]
        alike = likeness(state.reshape(-1, WIDTH).astype(np.float64))
        terms = reward(score, before, weights, alike, target)
        self.agent.remember(state, weights, float(np.dot(betas, terms)))
        return terms

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Return everything as arrays, by name."""
        parts = {
            "stored": {
                name: tensor.numpy(force=True) for name, tensor in self.stored.tensors.items()
            },
            "agent": self.agent.state(),
            "encoder": self.encoder.state(),
            ALLOCATOR: {
                "clients": np.array(self.clients),
                "participants": np.array(self.participants),
                "previous": np.array(self._previous, dtype=np.int64),
                "sizes": self._sizes,
                "tokens": self._tokens,
                "states": self._states,
                "offered": self._offered,
            },
        }
        return {f"{k}.{name}": a for k, values in parts.items() for name, a in values.items()}

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned."""
        stored = strip_prefix(state, "stored.")
        self.stored = Fleet({name: torch.as_tensor(a.copy()) for name, a in stored.items()})
        self.agent.load(strip_prefix(state, "agent."))
        self.encoder.load(strip_prefix(state, "encoder."))
        allocator = strip_prefix(state, f"{ALLOCATOR}.")
        self._previous = allocator["previous"].tolist()
        self._sizes, self._tokens = allocator["sizes"].copy(), allocator["tokens"].copy()
        self._states, self._offered = allocator["states"].copy(), allocator["offered"].copy()
