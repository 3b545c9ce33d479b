"""FedAvg (McMahan et al., 2017): one model for all, the data-weighted mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing


@algorithm(
    "fedavg",
    title="Federated averaging",
    paper="McMahan et al., 2017",
    place="global model",
    method="mean by data size",
    communication="the model, both ways",
)
class FedAvg(Algorithm):
    """θ ← Σ_i n_i θ_i' / Σ_j n_j over the clients that sent."""

    personal: ClassVar[bool] = False
    reads_start: ClassVar[bool] = False
    shared_update: ClassVar[tuple[str, ...]] = ("*",)

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        return {"*": Mixing.shared(round.sizes, receivers=round.clients)}
