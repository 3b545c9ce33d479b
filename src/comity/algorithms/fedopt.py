"""FedOpt (Reddi et al., 2021): FedAvg with an optimiser on the server.

The mean update of the clients takes the place of a gradient, with the sign turned: a server that
adds it is FedAvg. FedAvgM (Hsu et al., 2019) adds momentum; FedAdagrad, FedAdam and FedYogi divide
every entry by the size of its past updates, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from pydantic import PrivateAttr

from comity.algorithms.base import Round
from comity.algorithms.fedavg import FedAvg
from comity.algorithms.registry import algorithm
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing
from comity.settings import setting


class FedOpt(FedAvg):
    """Base class: Δ = Σ_i q_i Δ_i over the participants, with q_i = n_i / n or all alike."""

    weighting: Literal["sizes", "uniform"] = setting(
        "sizes", "clients count by their data, or all alike, as in the paper"
    )

    _momentum: Fleet | None = PrivateAttr(None)

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        weights = round.sizes if self.weighting == "sizes" else np.ones(len(round.participants))
        return {"*": Mixing.shared(weights, receivers=round.clients)}


@algorithm(
    "fedavgm",
    title="FedAvgM",
    paper="Hsu et al., 2019",
    place="global model",
    method="mean by data size; momentum on the server",
    communication="the model, both ways",
)
class FedAvgM(FedOpt):
    """m ← β m + Δ, from m = 0; x ← x + η m. With β = 0 and η = 1 this is FedAvg."""

    server_rate: float = setting(1.0, "η: length of the server's step", above=0)
    beta: float = setting(0.9, "β: share of the momentum that is kept", at_least=0, below=1)

    def server_step(self, held: Fleet, mixed: Fleet) -> Fleet:
        change = mixed - held
        if self._momentum is not None:
            change = self.beta * self._momentum + change
        self._momentum = change
        return held + self.server_rate * change


class Adaptive(FedOpt):
    """Base class: m ← β₁ m + (1 − β₁) Δ; v by a rule; x ← x + η m / (√v + τ).

    At first m = 0 and v = τ². There is no correction of bias.
    """

    server_rate: float = setting(0.03, "η: about as far as an entry moves in a round", above=0)
    beta1: float = setting(0.9, "β₁: share of the mean update that is kept", at_least=0, below=1)
    tau: float = setting(1e-3, "τ: updates smaller than this take shorter steps", above=0)

    _squares: Fleet | None = PrivateAttr(None)

    def server_step(self, held: Fleet, mixed: Fleet) -> Fleet:
        change = mixed - held
        momentum, squares = self._momentum, self._squares
        if momentum is None or squares is None:
            momentum = change.map(torch.zeros_like)
            squares = momentum + self.tau**2
        momentum = self.beta1 * momentum + (1 - self.beta1) * change
        squares = self._renewed(squares, change * change)
        self._momentum, self._squares = momentum, squares
        return held + self.server_rate * momentum / (squares.map(torch.sqrt) + self.tau)

    def _renewed(self, squares: Fleet, new: Fleet) -> Fleet:
        """Return v after a round whose squared mean update is ``new``."""
        raise NotImplementedError


@algorithm(
    "fedadagrad",
    title="FedAdagrad",
    paper="Reddi et al., 2021",
    place="global model",
    method="mean by data size; Adagrad on the server",
    communication="the model, both ways",
)
class FedAdagrad(Adaptive):
    """v ← v + Δ²; m ← β₁ m + (1 − β₁) Δ; x ← x + η m / (√v + τ)."""

    beta1: float = setting(0.0, "β₁: share of the mean update that is kept", at_least=0, below=1)

    def _renewed(self, squares: Fleet, new: Fleet) -> Fleet:
        return squares + new


@algorithm(
    "fedadam",
    title="FedAdam",
    paper="Reddi et al., 2021",
    place="global model",
    method="mean by data size; Adam on the server",
    communication="the model, both ways",
)
class FedAdam(Adaptive):
    """m ← β₁ m + (1 − β₁) Δ; v ← β₂ v + (1 − β₂) Δ²; x ← x + η m / (√v + τ)."""

    beta2: float = setting(0.99, "β₂: share of the mean square that is kept", at_least=0, below=1)

    def _renewed(self, squares: Fleet, new: Fleet) -> Fleet:
        return self.beta2 * squares + (1 - self.beta2) * new


@algorithm(
    "fedyogi",
    title="FedYogi",
    paper="Reddi et al., 2021",
    place="global model",
    method="mean by data size; Yogi on the server",
    communication="the model, both ways",
)
class FedYogi(FedAdam):
    """FedAdam with v ← v − (1 − β₂) Δ² sign(v − Δ²), which shrinks more slowly."""

    def _renewed(self, squares: Fleet, new: Fleet) -> Fleet:
        return squares - (1 - self.beta2) * new * (squares - new).map(torch.sign)
