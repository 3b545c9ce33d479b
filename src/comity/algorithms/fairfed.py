"""FairFed (Ezzeldin et al., 2023): more weight to clients whose fairness is that of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr

from comity.algorithms.base import Round, Survey
from comity.algorithms.fairbatch import Cells, FairBatch, predicts_yes, public_average
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Update, View
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting


def disparity(yes: FloatArray, members: FloatArray) -> FloatArray:
    """Return D = max_z |P(ŷ = 1 | z) − P(ŷ = 1)| from counts by attribute value z."""
    overall = yes.sum(axis=-1, keepdims=True) / np.maximum(members.sum(axis=-1, keepdims=True), 1)
    return np.asarray(np.abs(yes / np.maximum(members, 1) - overall).max(axis=-1))


@algorithm(
    "fairfed",
    title="FairFed",
    paper="Ezzeldin et al., 2023",
    place="global model",
    method="aggregation weights by group fairness",
    communication="the model and counts of answers by group; back, the model",
)
class FairFed(FairBatch):
    """Weights from F_k, client k's disparity under the model it received, and F, that of all.

    ``exp``: w_k ∝ exp(−β |F_k − F|) n_k. ``additive``, as published: Δ_k = |F_k − F|, or
    |acc_k − acc| where an attribute value is missing; w_k ← w_k − β (Δ_k − mean Δ), from
    w_k = n_k / n.
    """

    surveys: ClassVar[tuple[str, ...]] = ("yes", "members", "right")
    amounts: ClassVar[tuple[str, ...]] = ("members", "yes", "right")

    beta: float = setting(0.3, "how much disparity moves the weights", at_least=0)
    rule: Literal["exp", "additive"] = setting("exp", "weights anew each round, or carried on")
    average: Literal["weighted", "public"] = setting(
        "weighted", "weighted mean of models; public: the public code's, first client unweighted"
    )

    _weights: dict[int, float] = PrivateAttr(default_factory=dict)
    _total: float = PrivateAttr(1.0)
    """Sum of the weights of this round before they were divided by it."""

    def survey_client(self, problem: Problem) -> Update:
        cells = Cells(problem)

        def counted(parameters: Tree, everything: Batch, view: View) -> Tree:
            yes = predicts_yes(view.forward(parameters, everything["inputs"]))
            members = cells.members(everything)
            right = (yes == everything["label"]) * everything["weight"]
            return {
                "yes": (members * yes.unsqueeze(-1)).sum(dim=0),
                "members": members.sum(dim=0),
                "right": right.sum(),
            }

        return counted

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        if not survey.participants:
            return {}
        yes, members = survey.values["yes"], survey.values["members"]
        sizes = members.sum(axis=1)
        away = np.abs(disparity(yes, members) - disparity(yes.sum(axis=0), members.sum(axis=0)))
        if self.rule == "exp":
            weights = np.exp(-self.beta * away) * sizes / sizes.sum()
        else:
            right = survey.values["right"]
            accuracy = np.abs(right / sizes - right.sum() / sizes.sum())
            away = np.where((members > 0).all(axis=1), away, accuracy)
            pairs = zip(survey.participants, sizes / sizes.sum(), strict=True)
            before = np.array([self._weights.get(client, share) for client, share in pairs])
            weights = np.clip(before - self.beta * (away - away.mean()), 0.0, None)
        if weights.sum() > 0:  # additive: all may have lost their weight
            self._total = float(weights.sum())
            weights = weights / weights.sum()
            self._weights |= dict(zip(survey.participants, weights.tolist(), strict=True))
        return {}

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        weights = np.array([self._weights.get(client, 0.0) for client in round.participants])
        if not weights.any():
            weights = round.sizes
        if self.average == "public":
            return {"*": public_average(self._total * weights, round)}
        return {"*": Mixing.shared(weights, receivers=round.clients)}

    def state(self) -> dict[str, Any]:
        return {"weights": sorted(self._weights.items())}

    def load(self, state: dict[str, Any]) -> None:
        self._weights = {int(client): weight for client, weight in state.get("weights", ())}
