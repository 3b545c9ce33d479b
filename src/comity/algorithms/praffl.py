"""PraFFL (Ye et al., 2024): any preference becomes a model at once, and stays private.

A client holds a communicated network ψ and a hypernetwork β that turns a preference into the head
on top of ψ. Only ψ travels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.fairbatch import public_average
from comity.algorithms.parts import linear
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing, Pick
from comity.core.phases import Batch, Draw, Phase, View
from comity.core.preferences import equidistant
from comity.core.rng import stream
from comity.core.scalarisations import direction_of, smooth_tchebycheff
from comity.core.typing import FloatArray, Tree
from comity.errors import UserError
from comity.problems import Problem
from comity.settings import setting


class Hypernetwork(nn.Module):
    """β: from a direction λ to all weights of a head, one linear read-out per tensor."""

    def __init__(
        self, objectives: int, hidden: int | None, shapes: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__()
        inside, trunk = objectives, nn.Sequential()
        if hidden is not None:
            inside = hidden
            trunk = nn.Sequential(
                nn.Linear(objectives, hidden), nn.ReLU(), nn.Linear(hidden, hidden)
            )
        self.trunk = trunk
        self.heads = nn.ModuleList(nn.Linear(inside, math.prod(shape)) for shape in shapes)
        self._shapes = shapes

    def forward(self, direction: Tensor) -> list[Tensor]:
        inside = self.trunk(direction)
        heads = zip(self.heads, self._shapes, strict=True)
        return [head(inside).unflatten(-1, shape) for head, shape in heads]


class Spanning(nn.Module):
    """ψ, and the heads φ = β(λ) that turn its features into outputs."""

    def __init__(
        self,
        body: nn.Sequential,
        hyper: Hypernetwork,
        least: float,
        activation: nn.Module,
    ) -> None:
        super().__init__()
        self.body, self.hyper, self.least, self._activation = body, hyper, least, activation

    def head(self, importance: Tensor) -> list[Tensor]:
        """Return φ: weight and bias of both layers, with the axes of ``importance`` first.

        Only here an importance becomes the paper's direction λ. Preferences closer to the edge than
        any in training count as the closest ones in training.
        """
        weights: list[Tensor] = self.hyper(direction_of(importance, self.least))
        return weights

    def forward(self, inputs: Tensor, importance: Tensor) -> Tensor:
        """Return outputs (…, batch, outputs) at preferences (…, objectives)."""
        w1, b1, w2, b2 = self.head(importance)
        inner = self.body(inputs) @ w1.transpose(-1, -2) + b1.unsqueeze(-2)
        outputs: Tensor = self._activation(inner) @ w2.transpose(-1, -2) + b2.unsqueeze(-2)
        return outputs

    @torch.no_grad()
    def at(self, importance: Tensor) -> nn.Sequential:
        """Return the plain network at one preference; it shares ψ with this one."""
        w1, b1, w2, b2 = self.head(importance)
        return nn.Sequential(
            *self.body, linear(w1, b1), self._activation, linear(w2, b2.expand(len(w2)))
        )


@algorithm(
    "praffl",
    title="PraFFL",
    paper="Ye et al., 2024",
    place="client-led",
    method="linearised preferences; hypernetwork at each client",
    communication="the communicated network ψ, both ways; hypernetworks stay",
)
class PraFFL(Algorithm):
    """ψ ← mean of ψ_k; each client's β_k minimises the mean over λ of g(L(ψ, β_k(λ)); λ)."""

    personal: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("body.*",)
    reads_start: ClassVar[bool] = False
    run_defaults: ClassVar[Mapping[str, Any]] = {"keep_scope": "federation"}
    spanning: ClassVar[type[Spanning]] = Spanning
    """What `build` returns."""

    sampled: PositiveInt = setting(64, "preferences drawn for every batch (n_λ)")
    split: float = setting(0.5, "share of local training that ψ gets, first", above=0, below=1)
    smoothing: float = setting(1.0, "γ of the smooth Tchebycheff function", above=0)
    lambda_min: float = setting(0.01, "no entry of a preference counts as less", above=0, below=0.5)
    width: PositiveInt = setting(4, "features that ψ hands to the head", at_most=1024)
    arch: Literal["code", "relu"] = setting(
        "code", "head: two linear layers and one common bias, or relu between them"
    )
    hyper: Literal["mlp", "linear"] = setting("mlp", "hypernetwork: a hidden layer, or none")
    hyper_width: PositiveInt = setting(4, "width of the hypernetwork's hidden layers", at_most=1024)
    weighting: Literal["mean", "sizes", "public"] = setting(
        "mean", "how the server averages ψ; public: by sizes, but the first client's not weighted"
    )
    hand_over: Literal["trained", "averaged"] = setting(
        "trained", "ψ that clients end with: as trained, which β fits, or the mean (the paper)"
    )
    tested: PositiveInt = setting(1000, "preferences at which each client is judged in the end")

    @property
    def needs_server(self) -> str:
        public = self.weighting == "public"
        return "steps from the mean of all starts (weighting = public)" if public else ""

    def build(self, model: nn.Module, problem: Problem) -> Spanning:
        layers = list(model) if isinstance(model, nn.Sequential) else []
        if len(layers) < 2 or not isinstance(layers[-1], nn.Linear):
            raise UserError(
                f"{self.declaration.name} makes the last layer of a network anew for every "
                f"preference; the network of {problem.name} must be an nn.Sequential that ends in "
                "nn.Linear."
            )
        width, outputs = self.width, layers[-1].out_features
        body = nn.Sequential(*layers[:-1], nn.Linear(layers[-1].in_features, width), nn.ReLU())
        # the public code has no activation between the layers, and one bias for all outputs
        bias = 1 if self.arch == "code" else outputs
        shapes = ((width, width), (width,), (outputs, width), (bias,))
        hidden = self.hyper_width if self.hyper == "mlp" else None
        hyper = Hypernetwork(len(problem.objectives), hidden, shapes)
        activation = nn.Identity() if self.arch == "code" else nn.ReLU()
        return self.spanning(body, hyper, self.lambda_min, activation)

    @property
    def select_after_training(self) -> bool:
        return self.hand_over == "trained"

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Spanning)
        return module.at(torch.as_tensor(preference, dtype=torch.float32))

    def evaluation_preferences(self, objectives: int, purpose: str) -> FloatArray:
        """Return evenly spread preferences for two objectives, random ones for more."""
        count = self.tested if purpose == "test" else 101
        if objectives == 2:
            return equidistant(count, 2)
        drawn = stream(0, "spanned", objectives).dirichlet(np.ones(objectives), count)
        return np.concatenate([np.eye(objectives), drawn])[:count]

    def phases(self, problem: Problem) -> list[Phase]:
        """Train ψ on the error alone under the even head, then β on drawn preferences."""

        def tchebycheff(parameters: Tree, batch: Batch, view: View) -> Tensor:
            return self.span(parameters, batch, view)[0]

        return [
            self.body_phase(problem),
            Phase(
                train=("hyper.*",),
                share=1 - self.split,
                loss=tchebycheff,
                draw=self.even_draw(problem),
            ),
        ]

    def body_phase(self, problem: Problem) -> Phase:
        """Return the phase in which ψ is trained on the error alone, under the even head."""
        count = len(problem.objectives)

        def error(parameters: Tree, batch: Batch, view: View) -> Tensor:
            even = torch.full((count,), 1.0 / count)
            return view.losses(view.forward(parameters, batch["inputs"], even), batch)[0]

        return Phase(train=("body.*",), share=self.split, loss=error)

    def even_draw(self, problem: Problem) -> Draw:
        """Return what draws preferences from all parts of the simplex alike."""
        flat = np.ones(len(problem.objectives))

        def drawn(
            generator: np.random.Generator, steps: int, samples: int, parameters: Tree
        ) -> dict[str, FloatArray]:
            return {"importance": generator.dirichlet(flat, (steps, self.sampled))}

        return drawn

    def span(self, parameters: Tree, batch: Batch, view: View) -> tuple[Tensor, Tensor]:
        """Return the mean of g over the drawn preferences, and all losses (drawn x objectives)."""
        importance = view.drawn["importance"]
        outputs = view.forward(parameters, batch["inputs"], importance)
        losses: Tensor = torch.vmap(view.losses, in_dims=(0, None))(outputs, batch)
        direction = direction_of(importance, self.lambda_min)
        return smooth_tchebycheff(losses, direction, self.smoothing).mean(), losses

    def mix(self, round: Round) -> Mapping[str, Mixing | Pick]:
        if self.weighting == "public" and len(round.participants) > 1:
            return {"*": public_average(round.sizes, round, divisor=round.sizes[1:].sum())}
        weights = round.sizes if self.weighting != "mean" else np.ones(len(round.participants))
        return {"*": Mixing.shared(weights, receivers=round.clients)}
