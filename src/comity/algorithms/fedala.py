"""FedALA (Zhang et al., 2023): each top weight learns how much of the global one to take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import frozen
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


class Adaptive(nn.Module):
    """A client's model, the received global one, and W for the top tensors."""

    def __init__(self, model: nn.Module, top: int) -> None:
        super().__init__()
        self.model, self.arrived = model, frozen(model)
        names = [name for name, _ in model.named_parameters()]
        self.started = nn.Parameter(torch.zeros(()), requires_grad=False)
        """One as soon as the client has mixed for the first time."""
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


def differs(parameters: Tree) -> Tensor:
    """Return 1 if a received model differs from the client's own, else 0: nothing arrived yet."""
    own, arrived = strip_prefix(parameters, "model."), strip_prefix(parameters, "arrived.")
    return torch.stack([(arrived[k] != own[k]).any() for k in own]).any().float()


@algorithm(
    "fedala",
    title="FedALA",
    paper="Zhang et al., 2023",
    place="personalised models",
    method="learned mixture of global and local tensors",
    communication="the model, both ways; W stays",
)
class FedALA(FedAvg):
    """W ← clip(W − η ∇_θ̂ L ∘ (θ − θ_i), 0, 1), then θ_i ← θ̂ and local training of all tensors.

    The first time that a client mixes, W is trained for `start_passes` passes, later for one. The
    public code goes on until the last ten losses deviate by less than 0.1, after at least eleven
    passes, which is the default here.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)
    receive_as: ClassVar[Mapping[str, str]] = {"model.": "arrived."}

    top: int = setting(2, "how many of the last tensors have weights of their own", at_least=1)
    rate: float = setting(1.0, "η: step size of W", above=0)
    share: float = setting(0.8, "share of the data in a pass for W", above=0)
    start_passes: int = setting(
        11, "passes for W when a client mixes for the first time", at_least=1
    )

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Adaptive(model, self.top)

    def phases(self, problem: Problem) -> list[Phase]:
        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            outputs = view.forward({**parameters, **adapted(parameters)}, batch["inputs"])
            return view.objective(outputs, batch)

        def moved(parameters: Tree, grads: Tree, view: View) -> Tree:
            return {k: (parameters[k] - self.rate * g).clamp(0.0, 1.0) for k, g in grads.items()}

        def passes(parameters: Tree) -> Tensor:
            started = parameters["started"]
            return differs(parameters) * (started + (1 - started) * self.start_passes) * self.share

        def taken(parameters: Tree, everything: Batch, view: View) -> Tree:
            started = torch.maximum(parameters["started"], differs(parameters))
            return {"started": started, **adapted(parameters)}

        return [
            Phase(train=("top.*",), loss=loss, passes=passes, rate=0.0, after_step=moved),
            Phase(train=("model.*",), before=taken),
        ]
