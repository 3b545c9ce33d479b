"""FedPHP (Li et al., 2021): a client's historical model teaches the received one."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from comity.algorithms.base import Need, algorithm
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import Split, add_prefix, frozen, mmd, split, strip_prefix
from comity.core.phases import Batch, Phase, View
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


class Inherited(nn.Module):
    """The model, and the historical private model (HPM)."""

    def __init__(self, model: Split) -> None:
        super().__init__()
        self.model, self.history = model, frozen(model)
        self.rounds = nn.Parameter(torch.zeros(()), requires_grad=False)
        """Number of rounds that the client has taken part in."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs; in training, outputs, features and the HPM's features side by side."""
        features = self.model.features(inputs)
        outputs: Tensor = self.model.head(features)
        if not self.training:
            return outputs
        assert isinstance(self.history, Split)
        return torch.cat([outputs, features, self.history.features(inputs)], dim=-1)


@algorithm(
    "fedphp",
    title="FedPHP",
    paper="Li et al., 2021",
    family="client-specific: personalised",
    communication="the model, both ways; historical models stay",
)
class FedPHP(FedAvg):
    """(1 − λ) f_i + λ MMD(features, HPM's); then HPM ← μ_t HPM + (1 − μ_t) θ, μ_t = μ t / T."""

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)

    strength: float = setting(
        0.1, "λ: how much the historical model teaches", at_least=0, at_most=1
    )
    momentum: float = setting(
        0.9, "μ: how slowly the historical model follows, in the end", at_least=0, at_most=1
    )

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Inherited(Split(*split(model, problem)))

    def phases(self, problem: Problem) -> list[Phase]:
        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            width = parameters["model.head.weight"].shape[-2:]
            together = view.forward(parameters, batch["inputs"])
            parts = torch.split(together, [width[0], width[1], width[1]], dim=-1)
            taught = mmd(parts[1], parts[2])
            first = parameters["rounds"] == 0  # there is no history yet
            strength = torch.where(first, 0.0, self.strength)
            return (1 - strength) * view.objective(parts[0], batch) + strength * taught

        def inherited(parameters: Tree, everything: Batch, view: View) -> Tree:
            turn = parameters["rounds"] + 1
            grown = self.momentum * (turn / view.rounds).clamp(max=1.0)
            mu = torch.where(turn == 1, 0.0, grown)
            own, old = strip_prefix(parameters, "model."), strip_prefix(parameters, "history.")
            mixed = {k: mu * old[k] + (1 - mu) * own[k] for k in old}
            return {"rounds": turn, **add_prefix(mixed, "history.")}

        return [Phase(train=("model.*",), loss=loss, after=inherited)]
