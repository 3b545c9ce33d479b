"""q-FedAvg (Li et al., 2020): clients with a larger loss count more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from comity.algorithms.base import STEPS, Algorithm, Need, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Update, View
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting

_LEAST_LOSS = 1e-3  # below it F^(q − 1) with q < 1 explodes


@algorithm(
    "q-fedavg",
    title="q-FedAvg",
    paper="Li et al., 2020",
    place="global model",
    method="mean by a power of the client's loss",
    communication="the model, its loss before training and its steps; back, the model",
)
class QFedAvg(Algorithm):
    """x ← x − Σ_k F_k^q G_k / Σ_k h_k with G_k = −L Δ_k and h_k = q F_k^(q−1) ‖G_k‖² + L F_k^q.

    It descends Σ_k F_k^(q+1) / (q + 1). F_k is the loss of client k, scalarised by its preference,
    of the model that it received, over all its training data. The paper has L = 1 / η, η the
    learner's step size; here a round of K steps is one of size K η, for ‖G_k‖² would grow with K².
    With q = 0 this is the plain mean; the larger q, the more the worst served clients count.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    personal: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = (STEPS,)
    surveys: ClassVar[tuple[str, ...]] = ("objective",)

    q: float = setting(1.0, "how much more clients with a larger loss count", at_least=0)
    lipschitz: float = setting(0.0, "L; 0: 1 / (K η), for K local steps of size η", at_least=0)
    weighting: Literal["uniform", "sizes"] = setting(
        "uniform", "clients count alike but for their losses, or by their data, too"
    )

    def survey_client(self, problem: Problem) -> Update:
        def loss(parameters: Tree, everything: Batch, view: View) -> Tree:
            outputs = view.forward(parameters, everything["inputs"])
            return {"objective": view.objective(outputs, everything)}

        return loss

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        assert round.survey is not None
        answered = round.survey.participants
        places = [round.participants.index(client) for client in answered]
        losses = np.maximum(round.survey.values["objective"], _LEAST_LOSS)
        way = round.learner["learning_rate"] * max(float(round.steps.mean()), 1.0)
        lipschitz = self.lipschitz or 1 / way
        squares = (lipschitz * round.sent.distance(round.start)[places]) ** 2
        powers = lipschitz * losses**self.q
        bounds = self.q * losses ** (self.q - 1) * squares + powers
        counts = round.sizes[places] if self.weighting == "sizes" else np.ones(len(places))
        weights = np.zeros(len(round.participants))
        weights[places] = counts * powers / (counts @ bounds)
        mean = Mixing.shared(round.sizes, receivers=round.clients)
        step = Mixing.step(weights, receivers=round.clients, base=round.start.select([0]))
        return dict.fromkeys(round.buffers, mean) | {"*": step}
