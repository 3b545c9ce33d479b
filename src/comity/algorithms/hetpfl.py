"""HetPFL (Ye & Tang, 2025): PraFFL whose clients learn which preferences to train on.

Fronts differ from client to client: where one has most to gain, another has nothing left. Each
client draws its preferences from a Dirichlet distribution of its own, which moves to where draws
extend its front. The hypernetworks of all can be fused to one for the front of all data.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.algorithms.praffl import Hypernetwork, PraFFL, Spanning
from comity.algorithms.registry import algorithm
from comity.core.contributions import contributions
from comity.core.devices import in_double
from comity.core.dirichlet import draw_dirichlet, log_density
from comity.core.phases import Batch, Phase, View
from comity.core.scalarisations import direction_of
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting

_BETAS = (0.9, 0.999)  # of Adam on α


class Sampling(nn.Module):
    """Distribution from which a client draws preferences, Dirichlet with α; and α's optimiser."""

    def __init__(self, objectives: int, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((objectives,), alpha))
        """Has a gradient in every step; changed once per phase."""
        self.largest = nn.Parameter(torch.zeros(objectives))
        """Always zero; its gradient is the largest losses of a step."""
        for name, value in (("reference", 1.0), ("slope", 0.0), ("first", 0.0), ("second", 0.0)):
            kept = nn.Parameter(torch.full((objectives,), value), requires_grad=False)
            self.register_parameter(name, kept)
        for name in ("steps", "updates"):
            self.register_parameter(name, nn.Parameter(torch.zeros(()), requires_grad=False))


class Fused(nn.Module):
    """β_g: one hypernetwork for all clients, once there is one."""

    def __init__(self, hyper: Hypernetwork) -> None:
        super().__init__()
        self.hyper = hyper
        self.ready = nn.Parameter(torch.zeros(1), requires_grad=False)


class Heterogeneous(Spanning):
    """ψ and β, the sampling of the client, and the fused hypernetwork where there shall be one."""

    sampling: Sampling

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.fused: Fused | None = None

    def head(self, importance: Tensor) -> list[Tensor]:
        """Return φ made by β, or by the fused hypernetwork once there is one."""
        own = super().head(importance)
        if self.fused is None:
            return own
        ready = self.fused.ready > 0.5
        common = self.fused.hyper(direction_of(importance, self.least))
        return [torch.where(ready, one, other) for one, other in zip(common, own, strict=True)]


@algorithm(
    "hetpfl",
    title="HetPFL",
    paper="Ye & Tang, 2025",
    place="client-led",
    method="preference sampling by hypervolume contribution; fusion of hypernetworks",
    communication="ψ, both ways; with front = global also hypernetworks, which show clients' "
    "trade-offs, and back, the fused one",
)
class HetPFL(PraFFL):
    """PraFFL with λ ~ Dir(α_k), and α_k learned: J(α) = −(1/N) Σ_i (HC_i − mean HC) log p(λ_i; α).

    HC_i is what draw i adds to the hypervolume of a batch's N draws, from a reference point that
    is the largest loss so far, at least 1. Once per round, at its end: α ← α − Adam(mean ∂J/∂α),
    kept in [1, most]. λ is a preference as importance; PraFFL's direction is made from it.

    ``front = global``: when a share of the rounds is left, every client sends its β_k;
    β_g ← mean β_k, and (``tuned``) all train β_g on λ ~ Dir(1) in the rounds that are left, with ψ
    fixed: β_g ← mean of what they made of it.
    """

    sends: ClassVar[tuple[str, ...]] = ("body.*", "fused.*")
    spanning: ClassVar[type[Spanning]] = Heterogeneous

    sampled: PositiveInt = setting(8, "N: preferences drawn for every batch")
    split: float = setting(0.53, "share of local training that ψ gets, first", above=0, below=1)
    alpha: float = setting(1.05, "α of all clients at first", at_least=1)
    alpha_most: float = setting(5.0, "no entry of α gets larger", at_least=1)
    alpha_rate: float = setting(0.05, "step size of α; 0: it stays", at_least=0)
    alpha_decay: float = setting(
        0.0,
        "pull of α to zero; the public code's 1e-4 is about as strong as what α learns",
        at_least=0,
    )
    baseline: Literal["mean", "none"] = setting(
        "mean", "what contributions are measured from: their mean, or none (the public code)"
    )
    front: Literal["local", "global"] = setting(
        "local", "models that clients end with: of their own front, or one for that of all data"
    )
    fusion: Literal["mean", "tuned"] = setting(
        "tuned", "global: the mean of all hypernetworks, or trained on by all from there"
    )
    fusion_share: float = setting(
        0.25, "tuned: share of the rounds, the last ones, that train on", at_least=0, below=1
    )

    def build(self, model: nn.Module, problem: Problem) -> Heterogeneous:
        module = super().build(model, problem)
        assert isinstance(module, Heterogeneous)
        module.sampling = Sampling(len(problem.objectives), self.alpha)
        if self.front == "global":
            module.fused = Fused(deepcopy(module.hyper))
        return module

    @property
    def select_after_training(self) -> bool:
        return self.front == "local" and super().select_after_training

    def fused_rounds(self, rounds: int) -> int:
        """Return the number of rounds that train the fused hypernetwork, the last ones."""
        tuned = self.front == "global" and self.fusion == "tuned"
        return int(self.fusion_share * rounds) if tuned else 0

    def phases(self, problem: Problem) -> list[Phase]:
        """Train ψ, then β and α; in the end, where it is wanted, the fused β alone."""

        def before_fusion(round: int, rounds: int) -> bool:
            return round < rounds - self.fused_rounds(rounds)

        def at_fusion(round: int, rounds: int) -> bool:
            return round == rounds - self.fused_rounds(rounds)

        def after_fusion(round: int, rounds: int) -> bool:
            return round > rounds - self.fused_rounds(rounds)

        def tuned(parameters: Tree, batch: Batch, view: View) -> Tensor:
            return self.span(parameters, batch, view)[0]

        def handed_over(parameters: Tree, everything: Batch, view: View) -> Tree:
            own = add_prefix(strip_prefix(parameters, "hyper."), "fused.hyper.")
            ready = {"fused.ready": torch.ones_like(parameters["fused.ready"])}
            return {**self.adapted(parameters, everything, view), **own, **ready}

        body, hyper = self.body_phase(problem), self.hyper_phase(problem)
        if self.front == "local":
            return [body, hyper]
        return [
            replace(body, when=lambda *when: not after_fusion(*when)),
            replace(hyper, when=before_fusion),
            replace(hyper, when=at_fusion, after=handed_over),
            Phase(train=("fused.*",), when=after_fusion, loss=tuned, draw=self.even_draw(problem)),
        ]

    def hyper_phase(self, problem: Problem) -> Phase:
        """Return the phase in which β is trained, and α learns from the same draws."""

        def drawn(
            generator: np.random.Generator, steps: int, samples: int, parameters: Tree
        ) -> dict[str, FloatArray]:
            alpha = in_double(parameters["sampling.alpha"])
            return {"importance": draw_dirichlet(generator, alpha, (steps, self.sampled))}

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            """Return g, plus terms of which only `Sampling` has gradients."""
            mean, losses = self.span(parameters, batch, view)
            losses = losses.detach()
            largest = losses.amax(dim=0)
            aim = self.aim(
                losses,
                torch.maximum(parameters["sampling.reference"], largest),
                view.drawn["importance"],
                parameters["sampling.alpha"],
            )
            return mean + aim + (parameters["sampling.largest"] * largest).sum()

        def noted(parameters: Tree, grads: Tree, view: View) -> Tree:
            """Take note of gradients; the optimiser's own step of α and zeros is undone."""
            largest = grads["sampling.largest"]
            return {
                "sampling.alpha": view.received["sampling.alpha"],
                "sampling.largest": torch.zeros_like(largest),
                "sampling.reference": torch.maximum(parameters["sampling.reference"], largest),
                "sampling.slope": parameters["sampling.slope"] + grads["sampling.alpha"],
                "sampling.steps": parameters["sampling.steps"] + 1,
            }

        return Phase(
            train=("hyper.*", "sampling.*"),
            share=1 - self.split,
            loss=loss,
            draw=drawn,
            after_step=noted,
            after=self.adapted,
        )

    def aim(self, losses: Tensor, reference: Tensor, importance: Tensor, alpha: Tensor) -> Tensor:
        """Return J(α) of one batch's draws.

        Args:
            losses: Losses of the draws (draws x objectives).
            reference: Reference point of the hypervolume, no smaller than any loss.
            importance: The draws; entries below ``lambda_min`` count as that, as for β.
            alpha: α.
        """
        gains = contributions(losses, reference)
        if self.baseline == "mean":
            gains = gains - gains.mean()
        return -(gains * log_density(importance.clamp(min=self.lambda_min), alpha)).mean()

    def adapted(self, parameters: Tree, everything: Batch, view: View) -> Tree:
        """Take Adam's step of α along the mean gradient of the phase, whose sums start anew."""
        own = strip_prefix(parameters, "sampling.")
        alpha, count = own["alpha"], own["updates"] + 1
        slope = own["slope"] / own["steps"].clamp(min=1) + self.alpha_decay * alpha
        first = _BETAS[0] * own["first"] + (1 - _BETAS[0]) * slope
        second = _BETAS[1] * own["second"] + (1 - _BETAS[1]) * slope.square()
        step = first / (1 - _BETAS[0] ** count)
        size = (second / (1 - _BETAS[1] ** count)).sqrt() + 1e-8
        changed = {
            "alpha": (alpha - self.alpha_rate * step / size).clamp(1.0, self.alpha_most),
            "slope": torch.zeros_like(slope),
            "steps": torch.zeros_like(count),
            "first": first,
            "second": second,
            "updates": count,
        }
        return add_prefix(changed, "sampling.")
