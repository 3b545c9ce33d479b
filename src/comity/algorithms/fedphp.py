"""FedPHP (Li et al., 2021): a client's inherited model teaches the received one, and predicts."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.parts import Split, frozen, mmd, split
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting


class Inherited(nn.Module):
    """The model, and the inherited private model (HPM), which predicts."""

    def __init__(self, model: Split) -> None:
        super().__init__()
        self.model, self.history = model, frozen(model)
        self.rounds = nn.Parameter(torch.zeros(()), requires_grad=False)
        """Number of rounds that the client has taken part in."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the HPM's outputs, and the model's before the client's first round.

        In training, the model's outputs, its features and the HPM's features side by side.
        """
        assert isinstance(self.history, Split)
        features, inherited = self.model.features(inputs), self.history.features(inputs)
        outputs: Tensor = self.model.head(features)
        if self.training:
            return torch.cat([outputs, features, inherited], dim=-1)
        return torch.where(self.rounds > 0, self.history.head(inherited), outputs)


@algorithm(
    "fedphp",
    title="FedPHP",
    paper="Li et al., 2021",
    place="personalised models",
    method="moving average of a client's own models",
    communication="the model, both ways; historical models stay",
)
class FedPHP(FedAvg):
    """(1 − λ) f_i + λ MMD(features, HPM's); then HPM ← μ_t HPM + (1 − μ_t) θ, μ_t = μ t / T.

    t counts the client's earlier rounds, T is the number of rounds in which a client may expect to
    take part. The first HPM is the initial model. As in the authors' code, a client predicts with
    its HPM: the received model is only where the next training starts.
    """

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

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Inherited)
        return module.history if module.rounds > 0 else module.model

    def phases(self, problem: Problem) -> list[Phase]:
        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            width = parameters["model.head.weight"].shape[-2:]
            together = view.forward(parameters, batch["inputs"])
            parts = torch.split(together, [width[0], width[1], width[1]], dim=-1)
            taught = mmd(parts[1], parts[2])
            return (1 - self.strength) * view.objective(parts[0], batch) + self.strength * taught

        def inherited(parameters: Tree, everything: Batch, view: View) -> Tree:
            expected = max(int(view.participation * view.rounds), 1)
            mu = self.momentum * (parameters["rounds"] / expected).clamp(max=1.0)
            own, old = strip_prefix(parameters, "model."), strip_prefix(parameters, "history.")
            mixed = {k: mu * old[k] + (1 - mu) * own[k] for k in old}
            return {"rounds": parameters["rounds"] + 1, **add_prefix(mixed, "history.")}

        return [Phase(train=("model.*",), loss=loss, after=inherited)]
