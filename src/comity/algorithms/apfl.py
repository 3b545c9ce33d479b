"""APFL (Deng et al., 2020): each client learns how much of its own model to mix with the global."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from comity.algorithms.base import Need
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.registry import algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting

_DECAY = 0.02  # of α, in the rule of the library


class Mixture(nn.Module):
    """The global model w, a private one v, and α: v̄ = α v + (1 − α) w predicts."""

    def __init__(self, model: nn.Module, alpha: float) -> None:
        super().__init__()
        self.shared, self.personal = model, deepcopy(model)
        self.alpha = nn.Parameter(torch.tensor(alpha))

    def forward(self, inputs: Tensor, which: str = "mixture") -> Tensor:
        if which != "mixture":
            outputs: Tensor = getattr(self, which)(inputs)
            return outputs
        v, w = dict(self.personal.named_parameters()), dict(self.shared.named_parameters())
        # gradients through v̄ do not reach w
        mixed = {k: self.alpha * v[k] + (1 - self.alpha) * w[k].detach() for k in v}
        mixture: Tensor = functional_call(self.personal, mixed, (inputs,))
        return mixture


@algorithm(
    "apfl",
    title="APFL",
    paper="Deng et al., 2020",
    place="personalised models",
    method="mixture of a global and a local model",
    communication="the global model, both ways; private models and α stay",
)
class APFL(FedAvg):
    """Clients train w on f(w) and v on f(v̄); α takes one step, on the first batch of a round.

    ``rule="library"`` is what PFLlib runs: v on its own loss, α moved in every batch, and v
    overwritten by v̄ after each round.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("shared.*",)

    alpha: float = setting(
        1.0, "how much of the private model counts at first", at_least=0, at_most=1
    )
    rule: Literal["paper", "library"] = setting("library", "the paper's updates, or PFLlib's")

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Mixture(model, self.alpha)

    def phases(self, problem: Problem) -> list[Phase]:
        return self._paper() if self.rule == "paper" else self._library()

    def _paper(self) -> list[Phase]:
        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            shared = view.forward(parameters, batch["inputs"], "shared")
            mixture = view.forward(parameters, batch["inputs"])
            return view.objective(shared, batch) + view.objective(mixture, batch)

        def clipped(parameters: Tree, grads: Tree, view: View) -> Tree:
            return {"alpha": parameters["alpha"].clamp(0.0, 1.0)}

        models = ("shared.*", "personal.*")
        return [
            Phase(train=(*models, "alpha"), loss=loss, after_step=clipped, steps=1),
            Phase(train=models, loss=loss),
        ]

    def _library(self) -> list[Phase]:
        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            both = [view.forward(parameters, batch["inputs"], n) for n in ("shared", "personal")]
            return view.objective(both[0], batch) + view.objective(both[1], batch)

        def moved(parameters: Tree, grads: Tree, view: View) -> Tree:
            alpha = parameters["alpha"]
            v, w = strip_prefix(parameters, "personal."), strip_prefix(parameters, "shared.")
            slopes = [
                (
                    (v[k] - w[k])
                    * (alpha * grads[f"personal.{k}"] + (1 - alpha) * grads[f"shared.{k}"])
                )
                for k in strip_prefix(grads, "shared.")
            ]
            slope = torch.stack([s.sum() for s in slopes]).sum() + _DECAY * alpha
            return {"alpha": (alpha - view.rate * slope).clamp(0.0, 1.0)}

        def merged(parameters: Tree, everything: Batch, view: View) -> Tree:
            alpha = parameters["alpha"]
            v, w = strip_prefix(parameters, "personal."), strip_prefix(parameters, "shared.")
            return add_prefix({k: alpha * v[k] + (1 - alpha) * w[k] for k in v}, "personal.")

        models = ("shared.*", "personal.*")
        return [Phase(train=models, loss=loss, after_step=moved, after=merged)]
