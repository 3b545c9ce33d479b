"""Four algorithms of the literature, each in a page: docs/own-algorithm.md explains them.

    comity run german-credit-gender-dp --algorithm classics:FedNova --set supervised.local_epochs=1

Shipped algorithms have names of their own, so these are declared as own-….
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from torch import nn

import comity


@comity.algorithm(
    "own-fednova",
    title="FedNova",
    paper="Wang et al., 2020",
    place="global model",
    method="mean of updates, each divided by its number of steps",
    communication="the model and a number of steps; back, the model",
)
class FedNova(comity.Algorithm):
    """x ← x + Σ_i (τ p_i / τ_i) Δ_i: p_i = n_i / n, τ_i steps of client i, τ = Σ_i p_i τ_i."""

    personal = False
    statistics = ("steps",)

    def mix(self, round):
        shares = round.sizes / round.sizes.sum()
        steps = np.maximum(round.steps, 1)  # without a step there is no update
        weights = shares * (shares @ steps) / steps
        base = round.start.select([0])
        return {"*": comity.Mixing.step(weights, receivers=round.clients, base=base)}


class Controlled(nn.Module):
    """A network x with two control variates of its shape, which no gradient trains."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.common = deepcopy(model).requires_grad_(False)  # c, the server's
        for tensor in self.common.state_dict().values():
            tensor.zero_()
        self.own = deepcopy(self.common)  # c_i, the client's: it never leaves

    def forward(self, inputs):
        return self.model(inputs)


@comity.algorithm(
    "own-scaffold",
    title="SCAFFOLD",
    paper="Karimireddy et al., 2020",
    place="global model",
    method="control variates against the drift of clients",
    communication="the model and a control variate, both ways",
)
class Scaffold(comity.Algorithm):
    """Client i, K times from y = x: y ← y − η (∇f_i(y) + c − c_i).

    Then c_i' = c_i − c + (x − y) / (K η). Server, over the participants S of N clients:
    x ← x + rate · mean_S (y_i − x), c ← c + |S| / N · mean_S (c_i' − c_i).
    """

    needs = frozenset({"losses"})
    personal = False
    sends = ("model.*", "common.*")

    rate: float = 1.0

    def build(self, model, problem):
        return Controlled(model)

    def predictor(self, module, preference):
        return module.model

    def phases(self, problem):
        def correction(parameters, view):
            """⟨c − c_i, y⟩, of which the gradient is c − c_i."""
            total = 0.0
            for name in view.received:  # the trained tensors: model.…
                common, own = variates(parameters, name)
                total = total + ((common - own) * parameters[name]).sum()
            return total

        def renew(parameters, everything, view):
            """Keep c_i', and send c + c_i' − c_i: the server sees the change alone."""
            changed = {}
            for name, start in view.received.items():
                common, own = variates(parameters, name)
                new = own - common + (start - parameters[name]) / (view.steps * view.rate)
                changed[name.replace("model.", "own.", 1)] = new
                changed[name.replace("model.", "common.", 1)] = common + new - own
            return changed

        return [comity.Phase(penalty=correction, after=renew)]

    def local_phases(self, problem):
        return [comity.Phase()]

    def mix(self, round):
        count, base = len(round.participants), round.start.select([0])
        mean = np.full(count, self.rate / count)
        share = np.full(count, 1 / len(round.clients))
        return {
            "model.*": comity.Mixing.step(mean, receivers=round.clients, base=base),
            "common.*": comity.Mixing.step(share, receivers=round.clients, base=base),
        }


def variates(parameters, name):
    """Return c and c_i of one tensor of the network."""
    return (parameters[name.replace("model.", f"{kind}.", 1)] for kind in ("common", "own"))


@comity.algorithm(
    "own-fedavgm",
    title="FedAvgM",
    paper="Hsu et al., 2019",
    place="global model",
    method="momentum on the server",
    communication="the model, both ways",
)
class FedAvgM(comity.Algorithm):
    """m ← β m + Σ_i p_i Δ_i, x ← x + rate · m."""

    personal = False

    beta: float = 0.9
    rate: float = 1.0

    _momentum: comity.Fleet | None = None

    def mix(self, round):
        shares = round.sizes / round.sizes.sum()
        change = (round.sent - round.start).mean(shares)
        if self._momentum is None:
            self._momentum = change
        else:
            self._momentum = self.beta * self._momentum + change
        # base + change is x + rate · m
        base = round.start.select([0]) + self.rate * self._momentum - change
        return {"*": comity.Mixing.step(shares, receivers=round.clients, base=base)}


@comity.algorithm(
    "own-qfedavg",
    title="q-FedAvg",
    paper="Li et al., 2020",
    place="global model",
    method="more weight to clients with a larger loss",
    communication="the model and one loss; back, the model",
)
class QFedAvg(comity.Algorithm):
    """x ← x + Σ_k (L F_k^q / Σ_j h_j) Δ_k, F_k the loss of client k at x, L = 1 / η.

    h_k = q F_k^(q−1) ‖L Δ_k‖² + L F_k^q.
    """

    needs = frozenset({"losses"})
    personal = False
    surveys = ("objective",)

    q: float = 1.0

    def survey_client(self, problem):
        def loss(parameters, everything, view):
            outputs = view.forward(parameters, everything["inputs"])
            return {"objective": view.objective(outputs, everything)}

        return loss

    def mix(self, round):
        scale = 1 / round.learner["learning_rate"]
        places = [round.participants.index(client) for client in round.survey.participants]
        losses = np.maximum(round.survey.values["objective"], 1e-3)
        squares = (scale * round.sent.distance(round.start)[places]) ** 2
        gains = scale * losses**self.q
        lengths = self.q * losses ** (self.q - 1) * squares + gains
        weights = np.zeros(len(round.participants))
        weights[places] = gains / lengths.sum()
        base = round.start.select([0])
        return {"*": comity.Mixing.step(weights, receivers=round.clients, base=base)}
