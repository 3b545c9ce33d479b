"""HetPFL (Ye & Tang, 2025): PraFFL whose clients learn which preferences to train on.

Fronts differ from client to client: where one has most to gain, another has nothing left. Each
client draws its preferences from a Dirichlet distribution of its own, which moves to where draws
extend its front. The hypernetworks of all can be fused to one for the front of all data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.algorithms.base import Round
from comity.algorithms.hetpfl.model import Heterogeneous, Sampling
from comity.algorithms.praffl import PraFFL, Spanning
from comity.algorithms.registry import algorithm
from comity.core.contributions import contributions
from comity.core.devices import in_double
from comity.core.dirichlet import draw_dirichlet, log_density
from comity.core.mixing import Mixing, Pick
from comity.core.phases import Batch, Phase, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting

_BETAS = (0.9, 0.999)  # of Adam on α


@algorithm(
    "hetpfl",
    title="HetPFL",
    paper="Ye & Tang, 2025",
    place="client-led",
    method="preference sampling by hypervolume contribution; fusion of hypernetworks",
    communication="ψ, both ways; with front = global also hypernetworks, which show clients' "
    "trade-offs, and back, the fused one; with fusion = weights, those of all clients to everybody",
)
class HetPFL(PraFFL):
    """PraFFL with λ ~ Dir(α_k), and α_k learned: J(α) = −(1/N) Σ_i (HC_i − mean HC) log p(λ_i; α).

    HC_i is what draw i adds to the hypervolume of a batch's N draws, from a reference point that
    is the largest loss so far, at least 1. Once per round, at its end: α ← α − Adam(mean ∂J/∂α),
    kept in [1, most]. λ is a preference as importance; PraFFL's direction is made from it.

    ``front = global``: when a share of the rounds is left, every client sends its β_k;
    β_g ← mean β_k, and (``tuned``) all train β_g on λ ~ Dir(1) in the rounds that are left, with ψ
    fixed: β_g ← mean of what they made of it. With ``weights`` every client gets every β_k, and
    all train the network ω instead: β_g(λ) = Σ_k ω_k(λ) β_k, ω = σ(w(λ)) / Σ_k σ(w(λ))_k.
    """

    sends: ClassVar[tuple[str, ...]] = ("body.*", "fused.*", "upload.*")
    receive_as: ClassVar[Mapping[str, str]] = {"upload.": "bank."}
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
    fusion: Literal["mean", "tuned", "weights"] = setting(
        "tuned",
        "global: the mean of all hypernetworks; trained on by all from there; or a mean with "
        "weights that depend on the preference, for which everybody gets all hypernetworks",
    )
    fusion_share: float = setting(
        0.25,
        "tuned, weights: share of the rounds, the last ones, that train on",
        at_least=0,
        below=1,
    )

    def build(self, model: nn.Module, problem: Problem) -> Heterogeneous:
        module = super().build(model, problem)
        assert isinstance(module, Heterogeneous)
        module.sampling = Sampling(len(problem.objectives), self.alpha)
        if self.weighs:
            assert isinstance(problem, DataProblem)
            module.weigh(len(problem.objectives), len(problem.client_rows()))
        elif self.front == "global":
            module.fuse()
        return module

    @property
    def weighs(self) -> bool:
        """Whether clients get the hypernetworks of all, unmixed."""
        return self.front == "global" and self.fusion == "weights"

    @property
    def needs_server(self) -> str:
        return "hands everybody the hypernetworks of all" if self.weighs else super().needs_server

    def needs_exact(self, problem: Problem) -> str:
        handed = "hands the hypernetworks of all clients to everybody" if self.weighs else ""
        return handed or super().needs_exact(problem)

    @property
    def select_after_training(self) -> bool:
        return self.front == "local" and super().select_after_training

    def fused_rounds(self, rounds: int) -> int:
        """Return the number of rounds that train the fused hypernetwork, the last ones."""
        trained = self.front == "global" and self.fusion != "mean"
        return int(self.fusion_share * rounds) if trained else 0

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
            place = "upload." if self.weighs else "fused.hyper."
            own = add_prefix(strip_prefix(parameters, "hyper."), place)
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

    def mix(self, round: Round) -> Mapping[str, Mixing | Pick]:
        """Average ψ and what is fused; pick all β_k, once: those who are absent are replaced."""
        mixings = super().mix(round)
        if not self.weighs:
            return mixings
        row_of = {client: row for row, client in enumerate(round.participants)}
        turn = np.arange(len(round.clients)) % len(row_of)
        rows = [row_of.get(c, int(t)) for c, t in zip(round.clients, turn, strict=True)]
        over = bool((round.start["fused.ready"] > 0.5).all())
        route = {} if over else dict.fromkeys(round.clients, 0)
        return {"upload.*": Pick(np.array([rows]), len(row_of), route), **mixings}
