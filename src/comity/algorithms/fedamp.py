"""FedAMP (Huang et al., 2021): each client is pulled to a mean of similar clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.parts import frozen
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Phase, View
from comity.core.storage import strip_prefix
from comity.core.typing import FloatArray, Tree
from comity.problems import Problem
from comity.settings import setting


class Anchored(nn.Module):
    """A client's model, and the cloud model u to which it is pulled."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.anchor = model, frozen(model)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


def attention(squares: FloatArray, step: float, sigma: float) -> FloatArray:
    """Return ξ_ij = α exp(−‖θ_i − θ_j‖² / σ) / σ, and ξ_ii = 1 − Σ_j ξ_ij."""
    weights: FloatArray = step * np.exp(-squares / sigma) / sigma
    np.fill_diagonal(weights, 0.0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    np.fill_diagonal(weights, np.clip(1.0 - weights.sum(axis=1), 0.0, None))
    return weights


@algorithm(
    "fedamp",
    title="FedAMP",
    paper="Huang et al., 2021",
    place="personalised models",
    method="attention among similar clients",
    communication="the model; back, a mean of similar ones",
)
class FedAMP(Algorithm):
    """u_i = Σ_j ξ_ij θ_j; clients minimise f_i(θ) + λ / 2α ‖θ − u_i‖², each from its own θ_i.

    σ is measured in median squared distances between clients (``relative``): with an absolute one
    the kernel is zero for networks of any size.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)
    reads_start: ClassVar[bool] = False
    receive_as: ClassVar[Mapping[str, str]] = {"model.": "anchor."}

    pull: float = setting(1.0, "λ: strength of the pull to the cloud model", at_least=0)
    step: float = setting(0.5, "α: how much others count in the cloud model", above=0)
    sigma: float = setting(1.0, "σ: how far similarity reaches", above=0)
    relative: bool = setting(True, "σ in median squared distances between clients")

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Anchored(model)

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Anchored)
        return module.model

    def phases(self, problem: Problem) -> list[Phase]:
        def pulled(tensors: Tree, view: View) -> Tensor:
            own, anchor = strip_prefix(tensors, "model."), strip_prefix(tensors, "anchor.")
            squares = [(own[k] - anchor[k]).square().sum() for k in own]
            return self.pull / (2 * self.step) * torch.stack(squares).sum()

        return [Phase(penalty=pulled)]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        gram = round.sent.total_gram(round.sent.mean())
        norms = gram.diagonal()
        squares = np.clip(norms[:, None] + norms[None] - 2 * gram, 0.0, None)
        pairs = squares[~np.eye(len(squares), dtype=bool)]
        scale = 1.0
        if self.relative and pairs.any():  # where most are equal, the median of those that differ
            scale = float(np.median(pairs) or np.median(pairs[pairs > 0]))
        weights = attention(squares, self.step * scale, self.sigma * scale)
        return {"*": Mixing.personal(weights, round.participants)}
