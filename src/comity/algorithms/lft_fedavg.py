"""LFT+FedAvg (Zeng et al., 2021): clients train fairly on their own data, the server averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from comity.algorithms.base import Round
from comity.algorithms.fairbatch import PUBLIC_PASSES, FairBatch, public_average
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.settings import setting


@algorithm(
    "lft-fedavg",
    title="Local fair training + FedAvg",
    paper="Zeng et al., 2021",
    place="global model",
    method="local fair training; mean",
    communication="the model and the sum of a client's sample weights; back, the model",
)
class LFTFedAvg(FairBatch):
    """θ ← Σ_k V_k θ_k / Σ V, V_k the sum of client k's sample weights."""

    statistics: ClassVar[tuple[str, ...]] = ("total",)
    amounts: ClassVar[tuple[str, ...]] = ("total",)
    reads_start: ClassVar[bool] = False

    alpha: float = setting(0.3, "step size of the weights λ", at_least=0)
    average: Literal["weighted", "public"] = setting(
        "weighted", "weighted mean of models; public: the public code's, first client unweighted"
    )

    @property
    def needs_server(self) -> str:
        public = self.average == "public"
        return "steps from the mean of all starts (average = public)" if public else ""

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        totals = round.statistics["total"]
        weights = totals if totals.any() else round.sizes  # λ = 0 wherever there are samples
        if self.average == "public":
            return {"*": public_average(PUBLIC_PASSES * weights, round)}
        return {"*": Mixing.shared(weights, receivers=round.clients)}
