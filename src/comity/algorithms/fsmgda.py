"""FSMGDA (Yang et al., 2023): one Pareto-stationary model from one local model per objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.registry import algorithm
from comity.core.fleet import Fleet
from comity.core.mixing import Mixing
from comity.core.phases import Phase
from comity.core.solvers import descent_weights
from comity.problems import Problem
from comity.settings import setting


@algorithm(
    "fsmgda",
    title="Federated stochastic MGDA",
    paper="Yang et al., 2023",
    place="single solution",
    method="updates per objective; MGDA",
    communication="one model per objective; back, the model",
)
class FSMGDA(Algorithm):
    """x ← x − η Σ_s λ*_s Δ_s with Δ_s = mean_i Δ_{s,i} and λ* = argmin ‖Σ_s λ_s Δ_s‖², λ ≥ 0.

    Δ_{s,i} is the update of client i's copy, trained from x on objective s alone. It contains the
    local step size, so the server's rate is the paper's η_t over its η_L. An objective without
    movement has no weight.
    """

    personal: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})

    server_rate: float = setting(1.0, "length of the server's step along the updates", above=0)

    @property
    def needs_server(self) -> str:
        return "steps from one model that all clients hold"

    def phases(self, problem: Problem) -> list[Phase]:
        return [Phase(per_objective=True)]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        n = len(round.participants)
        objectives = len(round.sent) // n
        mean = np.tile(np.eye(objectives), n) / n
        moved = Fleet({name: round.sent[name] - round.start[name] for name in round.sent})
        weights = self.server_rate * descent_weights(moved.mix(mean).total_gram()) @ mean
        return {"*": Mixing.step(weights, receivers=round.clients, base=round.start.select([0]))}
