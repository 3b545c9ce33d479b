"""FedROD (Chen and Chao, 2022): a generic head, balanced over classes, and a private one."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import split
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.typing import Tree
from comity.problems import Problem

_NEVER = -1e4  # a finite logarithm of zero samples


class TwoHeads(nn.Module):
    """A body, the generic head that travels with it, and a private head."""

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body, self.head, self.personal = body, head, deepcopy(head)
        self.counts = nn.Parameter(torch.zeros(head.out_features), requires_grad=False)
        """Number of the client's samples per class."""

    def logits(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the generic head and of the private one, detached from the body."""
        features = self.body(inputs)
        return self.head(features), self.personal(features.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum of both heads' logits; in training, both side by side."""
        generic, own = self.logits(inputs)
        return torch.cat([generic, own], dim=-1) if self.training else generic + own


@algorithm(
    "fedrod",
    title="FedROD",
    paper="Chen and Chao, 2022",
    place="personalised models",
    method="generic and personal head on one body",
    communication="body and generic head, both ways; private heads and class counts stay",
)
class FedROD(FedAvg):
    """CE(s_g + log c_i, y) trains body and generic head, CE(stop(s_g) + s_p, y) the private one."""

    needs: ClassVar[frozenset[Need]] = frozenset({"classes", "losses"})
    sends: ClassVar[tuple[str, ...]] = ("body.*", "head.*")

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return TwoHeads(*split(model, problem))

    def phases(self, problem: Problem) -> list[Phase]:
        def counted(parameters: Tree, everything: Batch, view: View) -> Tree:
            classes = torch.arange(len(parameters["counts"]))
            of_class = everything["label"].unsqueeze(-1) == classes
            return {"counts": (of_class * everything["weight"].unsqueeze(-1)).sum(dim=0)}

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            generic, own = view.forward(parameters, batch["inputs"]).chunk(2, dim=-1)
            counts = parameters["counts"]
            prior = torch.where(counts > 0, counts.clamp(min=1).log(), _NEVER)
            label = batch["label"].long()
            balanced = F.cross_entropy(generic + prior, label)
            return balanced + F.cross_entropy(generic.detach() + own, label)

        return [Phase(before=counted, loss=loss)]
