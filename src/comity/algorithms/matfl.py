"""MaTFL (Cai et al., 2023): average with the clients whose weights moved in the same direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing, cosine, row_normalised
from comity.core.typing import FloatArray
from comity.settings import setting


@algorithm(
    "matfl",
    title="Many-task federated learning",
    paper="Cai et al., 2023",
    place="multi-task",
    method="aggregation by similarity, tensor by tensor",
    communication="the model, both ways",
)
class MaTFL(Algorithm):
    """w_ij ∝ max(cos(D_i, D_j) + shift, 0) over i's nearest clients, D_i = θ_i' − mean θ'."""

    reads_start: ClassVar[bool] = False

    voters: int = setting(10, "clients that each one averages with, itself included", at_least=1)
    scope: Literal["layer", "model"] = setting("layer", "compare tensor by tensor, or whole models")
    weights: Literal["similarity", "uniform", "votes"] = setting(
        "similarity", "by similarity, equal among voters, or by the number of tensors voted for"
    )
    shift: float = setting(0.0, "added to each cosine before the cut at zero", at_least=0)

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        mean, sent = round.sent.mean(), round.sent
        grams = {"*": sent.total_gram(mean)} if self.scope == "model" else sent.gram(mean)
        if self.weights == "votes":
            votes = sum((self._elected(cosine(gram)) for gram in grams.values()), np.zeros(()))
            return {"*": Mixing.personal(votes, round.participants)}
        return {
            name: Mixing.personal(self._weights(cosine(gram)), round.participants)
            for name, gram in grams.items()
        }

    def _weights(self, similarity: FloatArray) -> FloatArray:
        elected = self._elected(similarity)
        if self.weights == "uniform":
            return row_normalised(elected)
        return row_normalised(np.maximum(similarity + self.shift, 0.0) * elected)

    def _elected(self, similarity: FloatArray) -> FloatArray:
        """Return ones where j is among i's most similar clients, i included; lower ids win ties."""
        ranked = similarity.copy()
        np.fill_diagonal(ranked, np.inf)
        order = np.argsort(-np.round(ranked, 9), axis=1, kind="stable")[:, : self.voters]
        elected = np.zeros_like(similarity)
        np.put_along_axis(elected, order, 1.0, axis=1)
        return elected
