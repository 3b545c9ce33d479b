"""FedALA (Zhang et al., 2023): each top weight learns how much of the global one to take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from comity.algorithms.base import Need, algorithm
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import add_prefix, frozen, strip_prefix
from comity.core.phases import Batch, Phase, View
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


class Adaptive(nn.Module):
    """A client's model, the received global one, and W for the top tensors."""

    def __init__(self, model: nn.Module, top: int) -> None:
        super().__init__()
        self.model, self.arrived = model, frozen(model)
        names = [name for name, _ in model.named_parameters()]
        self.top = nn.ParameterDict(
            {
                name.replace(".", "/"): torch.ones_like(model.get_parameter(name))
                for name in names[-top:]
            }
        )

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


def adapted(parameters: Tree) -> Tree:
    """Return θ̂ = θ_i + (θ − θ_i) ∘ W for the top tensors, θ for all others."""
    own, arrived = strip_prefix(parameters, "model."), strip_prefix(parameters, "arrived.")
    shares = {k.replace("/", "."): w for k, w in strip_prefix(parameters, "top.").items()}
    mixed = {k: own[k] + (arrived[k] - own[k]) * shares[k] for k in shares}
    return add_prefix({**arrived, **mixed}, "model.")


@algorithm(
    "fedala",
    title="FedALA",
    paper="Zhang et al., 2023",
    family="client-specific: personalised",
    communication="the model, both ways; W stays",
)
class FedALA(FedAvg):
    """W ← clip(W − η ∇_θ̂ L ∘ (θ − θ_i), 0, 1), then θ_i ← θ̂ and local training of all tensors."""

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)
    receive_as: ClassVar[Mapping[str, str]] = {"model.": "arrived."}

    top: int = setting(2, "how many of the last tensors have weights of their own", at_least=1)
    rate: float = setting(1.0, "η: step size of W", above=0)
    share: float = setting(0.8, "steps for W, as a share of the round's", above=0)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Adaptive(model, self.top)

    def phases(self, problem: Problem) -> list[Phase]:
        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            outputs = view.forward({**parameters, **adapted(parameters)}, batch["inputs"])
            return view.objective(outputs, batch)

        def moved(parameters: Tree, grads: Tree, view: View) -> Tree:
            return {k: (parameters[k] - self.rate * g).clamp(0.0, 1.0) for k, g in grads.items()}

        def taken(parameters: Tree, everything: Batch, view: View) -> Tree:
            return adapted(parameters)

        return [
            Phase(train=("top.*",), loss=loss, share=self.share, rate=0.0, after_step=moved),
            Phase(train=("model.*",), before=taken),
        ]
