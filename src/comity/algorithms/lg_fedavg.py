"""LG-FedAvg (Liang et al., 2020): private representations under one shared head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from torch import nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.parts import Split, split
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "lg-fedavg",
    title="LG-FedAvg",
    paper="Liang et al., 2020",
    place="personalised models",
    method="local bodies, shared head",
    communication="the head, both ways; bodies stay",
)
class LGFedAvg(Algorithm):
    """Clients train (b_i, h) together, in every step; h ← Σ_i p_i h_i'.

    The head is the last layer. The authors start from a model that FedAvg has trained; here all
    bodies start from the common initial one.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    personal: ClassVar[bool] = False
    reads_start: ClassVar[bool] = False
    sends: ClassVar[tuple[str, ...]] = ("head.*",)
    shared_update: ClassVar[tuple[str, ...]] = ("*",)

    weighting: Literal["sizes", "uniform"] = setting(
        "sizes", "p: shares of the data, or all clients alike as in the authors' code"
    )

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Split(*split(model, problem))

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        weights = round.sizes if self.weighting == "sizes" else np.ones(len(round.participants))
        return {"*": Mixing.shared(weights, receivers=round.clients)}
