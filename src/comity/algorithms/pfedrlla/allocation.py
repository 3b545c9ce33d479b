"""The server's desk in pFedRLLA: everybody's last model, embeddings, an agent, what was offered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from comity.algorithms.pfedrlla.agent import Agent
from comity.algorithms.pfedrlla.encoder import WIDTH, Encoder, tokens
from comity.core.fleet import Fleet
from comity.core.mixing import row_normalised
from comity.core.storage import strip_prefix
from comity.core.typing import Float32Array, FloatArray, NamedArrays


def likeness(embeddings: FloatArray) -> FloatArray:
    """V: (1 + cos(e_k, e_j)) / 2 for each giver's embedding, 1 for one's own, which is last."""
    norms = np.linalg.norm(embeddings, axis=1)
    cosines = embeddings @ embeddings[-1] / np.maximum(norms * norms[-1], 1e-12)
    alike = np.append((1 + cosines[:-1]) / 2, 1.0)
    return np.asarray(alike / alike.sum())


def reward(
    score: float, before: float, weights: FloatArray, alike: FloatArray, target: float
) -> tuple[float, float, float]:
    """r₁ = exp(acc − acc_tar) − 1, r₂ = acc − acc_pre, r₃ = −‖A − V‖²."""
    apart = float(np.square(weights - alike).sum())
    return float(np.exp(score - target)) - 1.0, score - before, -apart


class Allocation:
    """Rows and places are those of ``everyone``; givers are the participants of the last round."""

    def __init__(
        self,
        everyone: Sequence[int],
        participants: int,
        initial: Fleet,
        heads: Sequence[str],
        agent: Agent,
        encoder: Encoder,
        scaled: bool,
    ) -> None:
        n, slots = len(everyone), participants + 1
        self.clients, self.participants = tuple(everyone), participants
        self.agent, self.encoder, self._heads, self._scaled = agent, encoder, heads, scaled
        self.stored = initial.select([0] * n) if n > 1 else initial.clone()
        self._sizes = np.zeros(n)
        self._tokens = np.repeat(tokens(initial.group(*heads), scaled), n, axis=0)
        self._previous: list[int] = []
        self._states = np.zeros((n, slots * WIDTH), np.float32)
        self._offered = np.zeros((n, slots))

    @property
    def tokens(self) -> Float32Array:
        return self._tokens

    def take(self, present: Sequence[int], sent: Fleet, sizes: FloatArray) -> None:
        """The models of those who took part, which are the next givers."""
        places = self._previous = [self.clients.index(client) for client in present]
        self.stored.put(places, sent)
        self._sizes[places] = sizes
        self._tokens[places] = tokens(sent.group(*self._heads), self._scaled)

    def observe(self) -> Float32Array:
        """A state for each client: the givers' embeddings, then its own.

        Where fewer took part than were asked, its own embedding fills the empty slots.
        """
        own = self.encoder.embed(self._tokens)
        rows = np.empty((len(own), self.participants + 1, WIDTH), np.float32)
        rows[:] = own[:, None]
        rows[:, : len(self._previous)] = own[self._previous]
        self._states = rows.reshape(len(own), -1)
        return self._states

    def offer(self, weights: FloatArray) -> FloatArray:
        """Everybody's weights over the slots, made honest, as weights over all clients."""
        weights = np.clip(weights, 0.0, None)
        weights[:, len(self._previous) : -1] = 0.0
        weights[weights.sum(axis=1) <= 0, -1] = 1.0  # left alone
        self._offered = weights / weights.sum(axis=1, keepdims=True)
        return self.spread()

    def spread(self) -> FloatArray:
        """What was offered, as weights over clients."""
        return self._spread(self._offered)

    def by_size(self) -> FloatArray:
        """Everybody's weights by how much data the givers have, and a client itself."""
        n, slots = self._offered.shape
        weights = np.zeros((n, slots))
        weights[:, : len(self._previous)] = self._sizes[self._previous]
        weights[:, -1] = self._sizes
        return row_normalised(self._spread(weights))

    def _spread(self, weights: FloatArray) -> FloatArray:
        """Weights over slots as weights over clients: who took part counts twice for itself."""
        matrix = np.zeros((len(weights), len(self.clients)))
        matrix[:, self._previous] = weights[:, : len(self._previous)]
        matrix[np.diag_indices_from(matrix)] += weights[:, -1]
        return matrix

    def rewarded(
        self, client: int, score: float, before: float, target: float, betas: Sequence[float]
    ) -> tuple[float, float, float]:
        """The terms of the reward for what a client was offered; the agent remembers their sum."""
        place = self.clients.index(client)
        state, weights = self._states[place], self._offered[place]
        alike = likeness(state.reshape(-1, WIDTH).astype(np.float64))
        terms = reward(score, before, weights, alike, target)
        self.agent.remember(state, weights, float(np.dot(betas, terms)))
        return terms

    # -- persistence -----------------------------------------------------------------------

    def state(self) -> NamedArrays:
        """Everything as arrays, by name."""
        parts = {
            "stored": {name: tensor.numpy() for name, tensor in self.stored.tensors.items()},
            "agent": self.agent.state(),
            "encoder": self.encoder.state(),
            "desk": {
                "everyone": np.array(self.clients),
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
        """Take back what `state` gave."""
        stored = strip_prefix(state, "stored.")
        self.stored = Fleet({name: torch.from_numpy(a.copy()) for name, a in stored.items()})
        self.agent.load(strip_prefix(state, "agent."))
        self.encoder.load(strip_prefix(state, "encoder."))
        desk = strip_prefix(state, "desk.")
        self._previous = desk["previous"].tolist()
        self._sizes, self._tokens = desk["sizes"].copy(), desk["tokens"].copy()
        self._states, self._offered = desk["states"].copy(), desk["offered"].copy()
