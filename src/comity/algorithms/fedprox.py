"""FedProx (Li et al., 2020): FedAvg with a proximal pull against client drift."""

from __future__ import annotations

import torch
from torch import Tensor

from comity.algorithms.fedavg import FedAvg
from comity.algorithms.registry import algorithm
from comity.core.phases import Phase, View
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "fedprox",
    title="FedProx",
    paper="Li et al., 2020",
    place="global model",
    method="mean by data size; proximal term",
    communication="the model, both ways",
)
class FedProx(FedAvg):
    """Clients minimise f_i(θ) + μ/2 ‖θ − θ_received‖². With μ = 0 this is FedAvg."""

    mu: float = setting(1.0, "strength of the pull to the received model", at_least=0)

    def phases(self, problem: Problem) -> list[Phase]:
        def pull(tensors: Tree, view: View) -> Tensor:
            common = tensors.keys() & view.received.keys()
            squares = [(tensors[k] - view.received[k]).square().sum() for k in sorted(common)]
            return self.mu / 2 * torch.stack(squares).sum()

        return [Phase(penalty=pull)]
