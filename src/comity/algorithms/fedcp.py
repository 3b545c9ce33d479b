"""FedCP (Zhang et al., 2023): features go in part to a global head, in part to a private one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import frozen, mmd, split
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting


def context(weight: Tensor) -> Tensor:
    """Return the sum of the rows of a private head, normalised."""
    total = weight.sum(dim=0)
    unit: Tensor = total / torch.linalg.vector_norm(total).clamp(min=1e-8)
    return unit


class Gated(nn.Module):
    """Body, private head, global head, the gate between them, and the received body."""

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        width = head.in_features
        self.body, self.head = body, head
        self.gate = nn.Sequential(nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.ReLU())
        self.common, self.upload, self.arrived = frozen(head), frozen(head), frozen(body)
        self.context = nn.Parameter(context(head.weight.detach()), requires_grad=False)

    def forward(self, inputs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return outputs; with noise for the gate (training) also the features of both bodies."""
        features = self.body(inputs)
        scores = self.gate(features * self.context).unflatten(-1, (2, -1))
        if noise is not None:
            scores = scores + noise
        own, common = torch.softmax(scores, dim=-2).unbind(dim=-2)
        outputs: Tensor = self.head(own * features) + self.common(common * features)
        if noise is None:
            return outputs
        return torch.cat([outputs, features, self.arrived(inputs)], dim=-1)


@algorithm(
    "fedcp",
    title="FedCP",
    paper="Zhang et al., 2023",
    place="personalised models",
    method="conditional policy that parts features",
    communication="body, gate and half the sum of both heads; back, body, gate, global head",
)
class FedCP(FedAvg):
    """f_i with Gumbel noise on the gate, plus λ MMD(features, those of the received body)."""

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("body.*", "gate.*", "upload.*")
    receive_as: ClassVar[Mapping[str, str]] = {"upload.": "common."}
    shared_update: ClassVar[tuple[str, ...]] = ("body.*",)

    strength: float = setting(0.0, "λ: how much features stay like the global body's", at_least=0)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Gated(*split(model, problem))

    def phases(self, problem: Problem) -> list[Phase]:
        width = split(problem.model(), problem)[1].in_features

        def drawn(
            generator: np.random.Generator, steps: int, samples: int, parameters: Tree
        ) -> dict[str, FloatArray]:
            return {"noise": generator.gumbel(size=(steps, samples, 2, width))}

        def arrived(parameters: Tree, everything: Batch, view: View) -> Tree:
            own = {"context": context(parameters["head.weight"])}
            return {**own, **add_prefix(strip_prefix(parameters, "body."), "arrived.")}

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            joined = view.forward(parameters, batch["inputs"], view.drawn["noise"])
            outputs = joined[:, : -2 * width]
            distance = mmd(joined[:, -2 * width : -width], joined[:, -width:])
            return view.objective(outputs, batch) + self.strength * distance

        def uploaded(parameters: Tree, everything: Batch, view: View) -> Tree:
            own, common = strip_prefix(parameters, "head."), strip_prefix(parameters, "common.")
            return add_prefix({k: (own[k] + common[k]) / 2 for k in own}, "upload.")

        trained = ("body.*", "gate.*", "head.*")
        return [Phase(train=trained, before=arrived, loss=loss, draw=drawn, after=uploaded)]
