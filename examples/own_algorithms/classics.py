"""Three algorithms, each in a page: docs/own-algorithm.md explains them.

    comity run german-credit-gender-dp --algorithm classics:FedDyn --clients 4 --participation 0.5

Shipped algorithms have names of their own, so these are declared as own-….
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from torch import nn

import comity


@comity.algorithm(
    "own-by-steps",
    title="Mean by steps",
    paper="an example",
    place="global model",
    method="mean by numbers of steps",
    communication="the model and a number of steps; back, the model",
)
class BySteps(comity.Algorithm):
    """x ← Σ_i τ_i y_i / Σ_j τ_j, τ_i the steps that client i took."""

    personal = False
    statistics = ("steps",)

    def mix(self, round):
        steps = np.maximum(round.steps, 1)  # before a learner starts to learn it takes none
        return {"*": comity.Mixing.shared(steps, receivers=round.clients)}


class Corrected(nn.Module):
    """A network with a correction of its shape, which no gradient trains."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.own = deepcopy(model).requires_grad_(False)  # h_i: it never leaves the client
        for tensor in self.own.state_dict().values():
            tensor.zero_()

    def forward(self, inputs):
        return self.model(inputs)


@comity.algorithm(
    "own-feddyn",
    title="FedDyn",
    paper="Acar et al., 2021",
    place="global model",
    method="dynamic regularisation against the drift of clients",
    communication="the model, both ways; corrections stay",
)
class FedDyn(comity.Algorithm):
    """Client i minimises f_i(y) − ⟨h_i, y⟩ + α/2 ‖y − x‖²; then h_i ← h_i − α (y_i − x).

    Server, over the participants S of N clients: s ← s + |S| / N · mean_S (y_i − x), and
    x ← mean_S y_i + s. (The paper writes h for −α s.)
    """

    needs = frozenset({"losses"})
    personal = False
    sends = ("model.*",)

    alpha: float = 0.1

    _share: float = 1.0
    _sum: comity.Fleet | None = None

    def build(self, model, problem):
        return Corrected(model)

    def predictor(self, module, preference):
        return module.model

    def phases(self, problem):
        def regularised(parameters, view):
            total = 0.0
            for name, x in view.received.items():  # the trained tensors: model.…
                y, own = parameters[name], parameters[name.replace("model.", "own.", 1)]
                total = total - (own * y).sum() + self.alpha / 2 * (y - x).square().sum()
            return total

        def renew(parameters, everything, view):
            changed = {}
            for name, x in view.received.items():
                own = name.replace("model.", "own.", 1)
                changed[own] = parameters[own] - self.alpha * (parameters[name] - x)
            return changed

        return [comity.Phase(penalty=regularised, after=renew)]

    def local_phases(self, problem):
        return [comity.Phase()]

    def mix(self, round):
        count = len(round.participants)
        self._share = count / len(round.clients)
        return {"*": comity.Mixing.shared(np.ones(count), receivers=round.clients)}

    def server_step(self, held, mixed):
        moved = self._share * (mixed - held)
        self._sum = moved if self._sum is None else self._sum + moved
        return mixed + self._sum


@comity.algorithm(
    "own-tilted",
    title="Tilted mean",
    paper="after Li et al., 2021",
    place="global model",
    method="more weight to clients with a larger loss",
    communication="the model and one loss; back, the model",
)
class Tilted(comity.Algorithm):
    """x ← Σ_k w_k y_k / Σ_j w_j with w_k = n_k exp(t F_k), F_k the loss of client k at x."""

    needs = frozenset({"losses"})
    personal = False
    surveys = ("objective",)

    t: float = 1.0

    def survey_client(self, problem):
        def loss(parameters, everything, view):
            outputs = view.forward(parameters, everything["inputs"])
            return {"objective": view.objective(outputs, everything)}

        return loss

    def mix(self, round):
        losses = np.full(len(round.participants), -np.inf)  # of no weight, if it is not known
        places = [round.participants.index(client) for client in round.survey.participants]
        losses[places] = round.survey.values["objective"]
        weights = round.sizes
        if places:
            weights = weights * np.exp(self.t * (losses - losses.max()))
        return {"*": comity.Mixing.shared(weights, receivers=round.clients)}
