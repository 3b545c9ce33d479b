"""FedFew (Guo et al., 2026): a few server models serve many clients, each by the best of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import PrivateAttr
from torch import Tensor, nn
from torch.nn.functional import one_hot

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, Update, View
from comity.core.typing import FloatArray, Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting


class Few(nn.Module):
    """The server's K models, each client's losses under them, and the one that it has chosen."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.model_losses = nn.Parameter(torch.zeros(len(models)), requires_grad=False)
        """Training losses of the received models."""
        first = one_hot(torch.tensor(0), len(models)).float()
        self.chosen = nn.Parameter(first, requires_grad=False)
        """1 at the model that predicts, 0 at all others."""

    def forward(self, inputs: Tensor, every: bool = False) -> Tensor:
        """Return the outputs of the chosen model, or those of every model, models first."""
        outputs = torch.stack([model(inputs) for model in self.models])
        return outputs if every else torch.einsum("k,k...->...", self.chosen, outputs)


def shares(losses: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of importance a (clients) and match w (clients x models).

    With S_i = Σ_k exp(−L_ik/μ): a_i = S_i⁻¹ / Σ_j S_j⁻¹, w_ik = exp(−L_ik/μ) / S_i.

    Args:
        losses: L, clients x models.
        mu: μ.
    """
    exponents = -losses / mu
    importance = -np.logaddexp.reduce(exponents, axis=1)
    return _log_shares(importance, axis=0), _log_shares(exponents, axis=1)


def _log_shares(exponents: FloatArray, axis: int) -> FloatArray:
    """Return log(exp(x) / Σ exp(x)) along an axis."""
    total: FloatArray = np.logaddexp.reduce(exponents, axis=axis, keepdims=True)
    return exponents - total


@algorithm(
    "fedfew",
    title="FedFew",
    paper="Guo et al., 2026",
    place="clients as objectives",
    method="smooth Tchebycheff function of a set of models",
    communication="K models and the losses of the received ones; back, K models",
)
class FedFew(Algorithm):
    """Minimise μ log Σ_i (Σ_k exp(−L_i(θ_k)/μ))⁻¹, whose limit is max_i min_k L_i(θ_k).

    Every client trains every model on its own loss. S_i = Σ_k exp(−L_ik/μ) with its losses L_ik
    under the received models; match w_ik = exp(−L_ik/μ)/S_i; importance a_i = S_i⁻¹/Σ_j S_j⁻¹;
    θ_k ← θ_k + Σ_i a_i w_ik (θ_ik − θ_k). A client predicts with the model of its least training
    loss, chosen anew whenever it receives models. One round costs K times the bytes and the
    local work of FedAvg's.
    """

    personal: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("models.*",)
    statistics: ClassVar[tuple[str, ...]] = ("model_losses",)
    _transient: ClassVar[tuple[str, ...]] = ("_importance", "_match")

    models: int = setting(
        3, "K: models of the server, which start different", at_least=1, at_most=1000
    )
    mu: float = setting(
        0.1, "μ: smaller, and the clients that are served worst count more", above=0
    )
    columns: Literal["raw", "normalised"] = setting(
        "raw",
        "length of a model's step: raw: Σ_i a_i w_ik, a K-th of FedAvg's on average; normalised: 1",
    )
    losses: Literal["plain", "shares"] = setting(
        "plain", "losses as they are, or times the client's share of all data (the public code)"
    )

    _importance: dict[str, float] | None = PrivateAttr(None)
    _match: dict[str, list[float]] | None = PrivateAttr(None)

    @property
    def needs_server(self) -> str:
        return "steps from models that all clients hold"

    def build(self, model: nn.Module, problem: Problem) -> Few:
        # equal models would stay equal, up to the order of batches
        assert isinstance(problem, DataProblem)
        return Few([model, *(problem.model() for _ in range(self.models - 1))])

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Few)
        return module.models[int(module.chosen.argmax())]

    def on_receipt(self, problem: Problem) -> Update:
        """Compute the losses of the received models, and choose the best of them."""

        def judged(parameters: Tree, everything: Batch, view: View) -> Tree:
            outputs = view.forward(parameters, everything["inputs"], True)
            losses = torch.stack([view.objective(output, everything) for output in outputs])
            return {"model_losses": losses, "chosen": one_hot(losses.argmin(), self.models).float()}

        return judged

    def phases(self, problem: Problem) -> list[Phase]:
        def total(parameters: Tree, batch: Batch, view: View) -> Tensor:
            """Return Σ_k f(θ_k), of which each model has its own gradient."""
            outputs = view.forward(parameters, batch["inputs"], True)
            return torch.stack([view.objective(output, batch) for output in outputs]).sum()

        # the first round begins without a delivery
        return [Phase(train=("models.*",), before=self.on_receipt(problem), loss=total)]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        losses = round.statistics["model_losses"]
        if self.losses == "shares":
            losses = losses * (round.sizes / round.sizes.sum())[:, None]
        importance, match = shares(losses, self.mu)
        exponents = importance[:, None] + match
        if self.columns == "normalised":
            exponents = _log_shares(exponents, axis=0)
        names = [str(client) for client in round.participants]
        self._importance = dict(zip(names, np.exp(importance).tolist(), strict=True))
        self._match = dict(zip(names, np.exp(match).tolist(), strict=True))
        steps = [
            Mixing.step(w, round.clients, round.start.select([0])) for w in np.exp(exponents).T
        ]
        patterns = [f"models.{k}.*" for k in range(len(steps) - 1)]
        return dict(zip([*patterns, "*"], steps, strict=True))

    def diagnostics(self) -> dict[str, Any]:
        if self._importance is None:
            return {}
        return {"importance": self._importance, "match": self._match}
