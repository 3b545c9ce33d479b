"""Ditto (Li et al., 2021): a private model beside the global one, pulled to it."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor, nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.storage import strip_prefix
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


class Pair(nn.Module):
    """The global model w and a private one v; it predicts with v."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.shared, self.personal = model, deepcopy(model)

    def forward(self, inputs: Tensor, shared: bool = False) -> Tensor:
        outputs: Tensor = (self.shared if shared else self.personal)(inputs)
        return outputs


@algorithm(
    "ditto",
    title="Ditto",
    paper="Li et al., 2021",
    place="personalised models",
    method="local model near the global one",
    communication="the global model, both ways; private models stay",
)
class Ditto(FedAvg):
    """w as in FedAvg; v minimises f_i(v) + λ/2 ‖v − w_received‖²."""

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("shared.*",)

    pull: float = setting(0.5, "λ: how strongly v is pulled to the received model", at_least=0)
    personal_share: float = setting(1.0, "steps for v, as a multiple of those for w", above=0)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Pair(model)

    def phases(self, problem: Problem) -> list[Phase]:
        def private(parameters: Tree, batch: Batch, view: View) -> Tensor:
            received = strip_prefix(view.received, "shared.")
            squares = [(parameters[f"personal.{k}"] - received[k]).square().sum() for k in received]
            loss = view.objective(view.forward(parameters, batch["inputs"]), batch)
            return loss + self.pull / 2 * torch.stack(squares).sum()

        def shared(parameters: Tree, batch: Batch, view: View) -> Tensor:
            return view.objective(view.forward(parameters, batch["inputs"], True), batch)

        return [
            Phase(train=("personal.*",), loss=private, share=self.personal_share),
            Phase(train=("shared.*",), loss=shared),
        ]
