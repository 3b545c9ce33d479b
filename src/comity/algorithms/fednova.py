"""FedNova (Wang et al., 2020): updates of clients that take unlike numbers of steps, normalised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from comity.algorithms.base import STEPS, Algorithm, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.typing import FloatArray


def path_lengths(steps: FloatArray, momentum: float) -> FloatArray:
    """Return ‖a‖₁, the sum of the weights of all gradients in an update, over the step size.

    Args:
        steps: Numbers of steps τ.
        momentum: ρ, from 0 to below 1; 0 gives τ.
    """
    series = (1 - momentum**steps) / (1 - momentum)
    return np.asarray((steps - momentum * series) / (1 - momentum))


@algorithm(
    "fednova",
    title="FedNova",
    paper="Wang et al., 2020",
    place="global model",
    method="mean by data size of updates over their lengths in steps",
    communication="the model and its number of steps; back, the model",
)
class FedNova(Algorithm):
    """x ← x + τ_eff Σ_i p_i Δ_i / ‖a_i‖₁ with p_i = n_i / n and τ_eff = Σ_i p_i ‖a_i‖₁.

    ‖a_i‖₁ is τ_i, the steps of client i, and with momentum ρ it is
    [τ_i − ρ (1 − ρ^τ_i) / (1 − ρ)] / (1 − ρ). Adam has no such weights of gradients: there τ_i is a
    heuristic. Where all take equally many steps this is FedAvg.
    """

    personal: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = (STEPS,)
    amounts: ClassVar[tuple[str, ...]] = (STEPS,)

    @property
    def needs_server(self) -> str:
        return "steps from one model that all clients hold"

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        plain = round.learner.get("optimiser") == "sgd"
        momentum = round.learner["momentum"] if plain else 0.0
        # without a step there is no update
        lengths = path_lengths(np.maximum(round.steps, 1.0), momentum)
        shares = round.sizes / round.sizes.sum()
        weights = shares * (shares @ lengths) / lengths
        mean = Mixing.shared(round.sizes, receivers=round.clients)
        step = Mixing.step(weights, receivers=round.clients, base=round.start.select([0]))
        return dict.fromkeys(round.buffers, mean) | {"*": step}
