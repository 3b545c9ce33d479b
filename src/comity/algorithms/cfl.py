"""Clustered federated learning (Sattler et al., 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from comity.algorithms.base import Round
from comity.algorithms.clustered import Clustered
from comity.algorithms.registry import algorithm
from comity.core.clusters import Split, Threshold
from comity.core.mixing import Mixing, cosine, linkage_bipartition
from comity.core.typing import FloatArray, IntArray
from comity.settings import setting


@algorithm(
    "cfl",
    title="Clustered federated learning",
    paper="Sattler et al., 2019; one-threshold rule: FedPref's experiments",
    place="personalised models",
    method="clusters by the cosine of updates",
    communication="the model, both ways",
)
class CFL(Clustered):
    """Train jointly; split a cluster once its mean update has stalled: for good, by default."""

    personal: ClassVar[bool] = False

    rule: Literal["patience", "two-threshold"] = setting(
        "patience", "when to split: stalled for `patience` rounds, or Sattler's two thresholds"
    )
    threshold: Threshold = setting(5.0, "mean update at or below which a cluster has stalled")
    patience: int = setting(2, "rounds in a row that a cluster must have stalled", at_least=1)
    largest_update: float = setting(
        1.6, "two-threshold: some client's update must exceed this", at_least=0
    )
    first_round: int = setting(20, "two-threshold: no split up to this round", at_least=0)
    linkage: Literal["single", "complete"] = setting(
        "single", "single: Sattler's optimal bipartition; complete: the official notebook"
    )

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        grams = round.sent.gram(round.start)
        gram: FloatArray = sum(grams.values(), np.zeros(()))
        clusters = self._partition(round, lambda: cosine(gram))
        norms = np.sqrt(gram.diagonal())

        def stalled(rows: IntArray) -> bool | None:
            if norms[rows].max() <= 1e-8:
                return None
            means = [float(product[np.ix_(rows, rows)].mean()) for product in grams.values()]
            change = [max(mean, 0.0) for mean in means]
            small = self._is_small(round, change, _squares(round, rows), self.threshold)
            if self.rule == "two-threshold":
                conflict = norms[rows].max() > self.largest_update
                late = round.number > self.first_round
                return bool(small and conflict and len(rows) > 2 and late)
            return small

        def split(rows: IntArray) -> Split:
            similarity = cosine(gram[np.ix_(rows, rows)])
            return self._sides(
                round, rows, similarity, lambda matrix: linkage_bipartition(matrix, self.linkage)
            )

        clusters.refine(
            round.participants,
            stalled,
            split,
            patience=self.patience if self.rule == "patience" else 1,
        )
        self._join(round, self.patience)
        weights: list[FloatArray] = []
        route: dict[int, int] = {}
        for members in clusters.members:
            row = np.where(np.isin(round.participants, members), round.sizes, 0.0)
            if row.sum() > 0:  # an absent cluster keeps its model
                route.update(dict.fromkeys(members, len(weights)))
                weights.append(row / row.sum())
        return {"*": Mixing(np.stack(weights), route)}


def _squares(round: Round, rows: IntArray) -> list[float]:
    """Return the squared norm of each tensor of a cluster's model."""
    model = round.start.select(rows[:1])
    return [float(tensor.norm()) ** 2 for tensor in model.tensors.values()]
