"""FedMGDA+ (Hu et al., 2022): clients as objectives, and a common descent direction of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import PrivateAttr

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.solvers import alive, min_norm
from comity.settings import setting


@algorithm(
    "fedmgda-plus",
    title="FedMGDA+",
    paper="Hu et al., 2022",
    place="clients as objectives",
    method="MGDA on normalised updates of clients",
    communication="the model, both ways",
)
class FedMGDAPlus(Algorithm):
    """θ ← θ − η_t Σ_i λ*_i ḡ_i with ḡ_i = g_i / ‖g_i‖ and g_i = θ − θ_i'.

    λ* = argmin ‖Σ_i λ_i ḡ_i‖² over the simplex, no further than ε from the prior λ⁰. With ε = 0
    this is FedAvg of normalised updates, with ε = 1 it is MGDA of them.
    """

    personal: ClassVar[bool] = False

    epsilon: float = setting(
        0.1, "how far a client's weight may be from its prior", at_least=0, at_most=1
    )
    server_rate: float = setting(1.0, "length of the server's first step", above=0)
    decay: float = setting(
        0.98, "factor on the server's step from round to round", above=0, at_most=1
    )
    prior: Literal["sizes", "uniform"] = setting(
        "sizes", "prior weights: by the clients' data, or all alike"
    )

    _steps: int = PrivateAttr(0)

    @property
    def needs_server(self) -> str:
        return "steps from one model that all clients hold"

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        gram = round.sent.total_gram(round.start)
        live = alive(gram)  # a client without movement would get all the weight
        weights = np.zeros(len(gram))
        if live.any():
            norms = np.sqrt(gram.diagonal()[live])
            prior = round.sizes[live] if self.prior == "sizes" else np.ones(len(norms))
            prior = prior / prior.sum()
            lam = min_norm(
                gram[np.ix_(live, live)] / np.outer(norms, norms),
                lower=np.maximum(prior - self.epsilon, 0.0),
                upper=np.minimum(prior + self.epsilon, 1.0),
            )
            weights[live] = self.server_rate * self.decay**self._steps * lam / norms
            self._steps += 1
        return {"*": Mixing.step(weights, receivers=round.clients, base=round.start.select([0]))}
