"""FedPref (Hartmann et al., 2025): personal aggregation among clients with private preferences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import PrivateAttr

from comity.algorithms.base import Round
from comity.algorithms.clustered import Clustered, by_client
from comity.algorithms.registry import algorithm
from comity.core.clusters import Split, Threshold
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing, spectral_bipartition
from comity.core.typing import FloatArray, IntArray
from comity.settings import setting


@algorithm(
    "fedpref",
    title="FedPref",
    paper="Hartmann et al., 2025",
    place="preference-driven",
    method="linearised preferences; aggregation and clusters by similarity",
    communication="the model, both ways; preferences never",
)
class FedPref(Clustered):
    """Similarity-weighted means inside clusters that split once their mean model has stalled."""

    top_r: float = setting(
        0.8, "share of each tensor's largest changes that count", above=0, at_most=1
    )
    similarity: Literal["tensor", "layer"] = setting(
        "tensor", "mean of the cosines of tensors, or of layers (weight and bias as one vector)"
    )
    minimum_similarity: float = setting(
        -1.0, "similarity at or below which a client has no weight", at_least=-1, below=1
    )
    threshold: Threshold = setting(
        5.0, "change of a cluster's mean model that counts as stalled; '2.5%': of its norm"
    )
    patience: int = setting(2, "rounds in a row that a cluster must have stalled", at_least=1)
    clustering: bool = setting(True, "split stalled clusters (off: weighted aggregation only)")
    weighting: bool = setting(True, "weigh by similarity (off: plain means, clustering only)")

    _similarities: list[list[float | None]] | None = PrivateAttr(None)
    _known: dict[tuple[int, ...], FloatArray] = PrivateAttr(default_factory=dict)

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        clusters = self._partition(round, lambda: self._compare(round.sent, round.start))
        self._known.clear()
        self._similarities = by_client(
            round, clusters.members, lambda rows: self._similarity(round, rows)
        )
        if self.clustering:
            clusters.refine(
                round.participants,
                lambda rows: self._stalled(round, rows),
                lambda rows: self._split(round, rows),
                self.patience,
            )
            self._join(round, self.patience)
        weights = np.zeros((len(round.participants), len(round.participants)))
        for members in clusters.members:
            rows = np.flatnonzero(np.isin(round.participants, members))
            if len(rows):
                weights[np.ix_(rows, rows)] = self._weights(round, rows)
        return {"*": Mixing.personal(weights, round.participants)}

    def _stalled(self, round: Round, rows: IntArray) -> bool | None:
        """Return whether ‖mean θ' − θ̄_C‖ ≤ ε, θ̄_C being the cluster's mean model at the start."""
        sent, start = round.sent.select(rows), round.start.select(rows)
        if sent.distance(start).max() <= 1e-8:
            return None
        reference, mean = start.mean(), sent.mean()
        change = [float(mean.group(name).distance(reference.group(name))[0]) ** 2 for name in mean]
        model = [float(tensor.square().sum()) for tensor in reference.tensors.values()]
        return self._is_small(round, change, model, self.threshold)

    def _split(self, round: Round, rows: IntArray) -> Split:
        return self._sides(round, rows, self._similarity(round, rows), spectral_bipartition)

    def _similarity(self, round: Round, rows: IntArray) -> FloatArray:
        """Return sim_ij = mean over tensors of cos(topR(Δ_i), topR(Δ_j)), Δ_i = θ_i' − θ̄_C.

        With ``similarity = "layer"`` the mean is over layers, and topR is that of a layer.
        """
        key = tuple(rows.tolist())
        if key not in self._known:
            reference = round.start.select(rows).mean()
            self._known[key] = self._compare(round.sent.select(rows), reference)
        return self._known[key]

    def _compare(self, sent: Fleet, reference: Fleet) -> FloatArray:
        if self.similarity == "layer":
            reference, sent = reference.layers(), sent.layers()
        return sent.similarity(reference, self.top_r)

    def diagnostics(self) -> dict[str, Any]:
        """Return the clusters, and similarities as they were before this round's splits.

        Similarities (clients x clients) are None between clusters and for absent clients.
        """
        recorded = {} if self._similarities is None else {"similarity": self._similarities}
        return {**super().diagnostics(), **recorded}

    def _weights(self, round: Round, rows: IntArray) -> FloatArray:
        """Return u_ij = (max(sim_ij, s_min) − s_min) / (1 − s_min), the diagonal one."""
        if not self.weighting:
            return np.ones((len(rows), len(rows)))
        floor = self.minimum_similarity
        similarity = self._similarity(round, rows)
        return (np.maximum(similarity, floor) - floor) / (1.0 - floor)
