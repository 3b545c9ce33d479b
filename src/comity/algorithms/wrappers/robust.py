"""What robust wrappers share: which hosts they fit, and rows of weights that withstand outliers.

Some change the updates before the host sees them (`Wrapper.combine`), the others the weights that
the host has chosen (`RobustRow`). All of them read the Gram matrix of the clients' updates only.

Where a host makes one model for all, robust means that a minority of members moves it only so far.
Where it makes one model per client, it means the same of that client's own row: a client trusts
its own model, and judges those of others from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.wrappers.base import Mixings, Wrapper
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, Pick, key_of
from comity.core.typing import FloatArray
from comity.errors import UserError

_FEWEST = 3
"""Givers below which there is no majority."""
ROUNDING = 1e-5
"""Relative difference of weights or distances that may be due to float32."""


class Robust(Wrapper):
    """Base class: refuses hosts whose server mixes no updates."""

    @classmethod
    def check(cls, algorithm: type[Algorithm]) -> None:
        """Refuse a host that mixes nothing, pools data, or offers several models to a client."""
        name, host = cls.declaration.name, algorithm.declaration.name
        if not algorithm.communicates:
            raise UserError(f"{name} means nothing for {host}: its server mixes no models.")
        if algorithm.centralised:
            raise UserError(f"{name} means nothing for {host}: one client trains for all.")
        if algorithm.offers_several:
            raise UserError(
                f"{name} means nothing for {host}: its clients choose among whole models by their "
                "own validation."
            )


class RobustRow(Robust):
    """Base class of wrappers that choose the weights of a row anew."""

    def row(self, gram: FloatArray, weights: FloatArray, own: int | None) -> FloatArray:
        """Return the weights of a row that withstands outliers; non-negative, their sum one.

        Args:
            gram: ⟨x_i, x_j⟩ of what the row's givers sent, at least three of them.
            weights: The host's weights of these givers; their sum is one, and only the
                receiver's may be zero.
            own: Place of the row's only receiver among the givers; None where it is not among
                them, or the row is for several clients.
        """
        raise NotImplementedError

    def adjust(
        self, mixings: Mixings, round: Round, shared_update: Sequence[str]
    ) -> tuple[Mixings, dict[str, float]]:
        """Choose every row of every mixing anew, by what it mixes of all its tensors."""
        names: dict[str, list[str]] = {}
        for name in round.sent:
            names.setdefault(key_of(mixings, name), []).append(name)
        return {
            key: mixing
            if isinstance(mixing, Pick) or key not in names
            else self._robust(mixing, round, names[key])
            for key, mixing in mixings.items()
        }, {}

    def _robust(self, mixing: Mixing, round: Round, names: Sequence[str]) -> Mixing:
        gram = _gram(mixing, round, names)
        givers = round.clients if mixing.stored is not None else round.participants
        receivers: dict[int, list[int]] = {}
        for client, row in mixing.route.items():
            receivers.setdefault(row, []).append(client)
        weights = mixing.weights.copy()
        for row, values in enumerate(mixing.weights):
            clients = receivers.get(row, [])
            own = clients[0] if len(clients) == 1 else None
            place = givers.index(own) if own in givers else None
            weights[row] = self._row(gram, values.reshape(len(givers), -1), place).ravel()
        return replace(mixing, weights=weights)

    def _row(self, gram: FloatArray, weights: FloatArray, own: int | None) -> FloatArray:
        """Return a row (givers x models of each) with robust weights.

        Σ_ik w_ik Δ_ik is a weighted sum of x_i = Σ_k w_ik Δ_ik / W_i with W_i = Σ_k |w_ik|: that
        makes every row a mean of one vector per giver, up to its length, whatever its signs.
        """
        totals = np.abs(weights).sum(axis=1)
        shares = np.full(weights.shape, 1 / weights.shape[1])
        given = totals > ROUNDING * totals.sum()
        shares[given] = weights[given] / totals[given, None]
        live = np.flatnonzero(given | (np.arange(len(totals)) == own))
        if len(live) < _FEWEST:
            return weights
        points = np.zeros((len(live), *weights.shape))
        points[np.arange(len(live)), live] = shares[live]
        flat = points.reshape(len(live), -1)
        before = np.where(given, totals, 0.0)[live]
        place = None if own is None else int(np.flatnonzero(live == own)[0])
        chosen = np.zeros(len(totals))
        chosen[live] = self.row(flat @ gram @ flat.T, before / before.sum(), place)
        return np.asarray(totals.sum() * chosen[:, None] * shares)


def _gram(mixing: Mixing, round: Round, names: Sequence[str]) -> FloatArray:
    """Return ⟨x_i, x_j⟩ of what a mixing mixes: updates in a step, otherwise models."""

    def some(fleet: Fleet) -> Fleet:
        return Fleet({name: fleet[name] for name in names})

    if mixing.stored is not None:
        stored = some(mixing.stored)
        return stored.total_gram(stored.mean())
    start = some(round.start)
    return some(round.sent).total_gram(start if mixing.base is not None else start.mean())


def update_gram(round: Round) -> FloatArray:
    """Return ⟨Δ_i, Δ_j⟩ of the participants' updates, summed over all models of each."""
    gram, count = round.sent.total_gram(round.start), len(round.participants)
    each = len(gram) // count
    blocks = gram.reshape(count, each, count, each)
    return np.asarray(np.einsum("ikjk->ij", blocks))


def outvoted(share: float, count: int) -> int:
    """Return the number of bad members to withstand among ``count``: a share, rounded down."""
    return int(np.floor(share * count + 1e-9))
