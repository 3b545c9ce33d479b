"""FedProx (Li et al., 2020): FedAvg with a proximal pull against client drift."""

from __future__ import annotations

import torch
from torch import Tensor

from comity.algorithms.base import algorithm
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.thesis import fairness_settings
from comity.core.phases import Phase, View
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "fedprox",
    title="FedProx",
    paper="Li et al., 2020",
    family="single global model",
    communication="the model, both ways",
    tuned={
        "deep-sea-treasure": {"mu": 1.0, "local_steps": 500},
        "minecart-deterministic": {"mu": 1.0, "local_steps": 5000},
        "lunar-lander": {"mu": 1.0, "local_steps": 5000},
        "lunar-lander-continuous": {"mu": 0.01},
        "halfcheetah": {"mu": 0.01},
        **fairness_settings(
            eo={"mu": (0.0, 0.01, 0.0, 0.01, 0.0), "local_steps": (50, 50, 25, 25, 50)},
            dp={"mu": (0.0, 0.1, 0.0, 0.1, 0.01), "local_steps": (25, 25, 10, 10, 10)},
        ),
    },
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
