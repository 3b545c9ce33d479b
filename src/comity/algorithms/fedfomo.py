"""FedFomo (Zhang et al., 2021): clients try a few others' models and mix those that help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import PrivateAttr
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.parts import frozen
from comity.algorithms.registry import algorithm
from comity.core.mixing import Pick
from comity.core.phases import Batch, Phase, View
from comity.core.storage import add_prefix, strip_prefix
from comity.core.typing import FloatArray, IntArray, Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting


class Offered(nn.Module):
    """A client's model, the models offered to it, and the gain of each offer."""

    def __init__(self, model: nn.Module, offers: int) -> None:
        super().__init__()
        self.model, self.offers = model, frozen(model)
        for part in self.offers.modules():
            for name, tensor in list(part.named_parameters(recurse=False)):
                stacked = tensor.detach().expand(offers, *tensor.shape).clone()
                part.register_parameter(name, nn.Parameter(stacked, requires_grad=False))
            for name, buffer in list(part.named_buffers(recurse=False)):
                if buffer.is_floating_point():
                    part.register_buffer(name, buffer.expand(offers, *buffer.shape).clone())
        self.gains = nn.Parameter(torch.zeros(offers), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


def weighed(own: Tree, offers: Tree, loss: Tensor, losses: Tensor) -> tuple[Tree, Tensor]:
    """Return the client's new model and q: gain on validation over distance, per offer.

    q_j = (L(θ) − L(θ_j)) / ‖θ_j − θ‖, θ ← Σ_j max(q_j, 0) θ_j / Σ max(q, 0), or θ if none helps.
    """
    squares = [(offers[k] - own[k]).flatten(1).square().sum(dim=1) for k in own]
    distance = torch.stack(squares).sum(dim=0).sqrt()
    # the client's own model is among the offers: rounding is no gain
    gains = torch.where(distance > 0, (loss - losses) / (distance + 1e-5), 0.0)
    positive = gains.clamp(min=0)
    total = positive.sum()
    shares = positive / total.clamp(min=1e-12)
    taken = {k: torch.einsum("m,m...->...", shares, offers[k]) for k in own}
    return {k: torch.where(total > 0, taken[k], own[k]) for k in own}, gains


@algorithm(
    "fedfomo",
    title="FedFomo",
    paper="Zhang et al., 2021",
    place="personalised models",
    method="aggregation weights by validation loss",
    communication="the model and what offers were worth; back, a few clients' whole models",
)
class FedFomo(Algorithm):
    """The server sends each client the M models of the clients that have helped it most so far.

    Of equal ones, as all are at first, others come in turn from round to round.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)
    receive_as: ClassVar[Mapping[str, str]] = {"model.": "offers."}
    offers_several: ClassVar[bool] = True
    statistics: ClassVar[tuple[str, ...]] = ("gains",)

    offers: int = setting(5, "M: models that a client is sent", at_least=1)

    _affinity: dict[int, dict[int, float]] = PrivateAttr(default_factory=dict)
    _offered: dict[int, list[int]] = PrivateAttr(default_factory=dict)

    @property
    def needs_server(self) -> str:
        return "hands each client several models of others, unmixed"

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        assert isinstance(problem, DataProblem)
        return Offered(model, min(self.offers, len(problem.client_rows())))

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Offered)
        return module.model

    def phases(self, problem: Problem) -> list[Phase]:
        def chosen(parameters: Tree, everything: Batch, view: View) -> Tree:
            own, offers = strip_prefix(parameters, "model."), strip_prefix(parameters, "offers.")

            def loss(model: Tree) -> Tensor:
                changed = {**parameters, **add_prefix(model, "model.")}
                outputs = view.forward(changed, view.validation["inputs"])
                return view.objective(outputs, view.validation)

            losses = torch.vmap(loss)(offers)
            model, gains = weighed(own, offers, loss(own), losses)
            return {**add_prefix(model, "model."), "gains": gains}

        return [Phase(train=("model.*",), before=chosen)]

    def mix(self, round: Round) -> Mapping[str, Pick]:
        for client, gains in zip(round.participants, round.statistics["gains"], strict=True):
            known = self._affinity.setdefault(client, {client: 1.0})
            offered = self._offered.get(client, ())
            for giver, gain in dict(zip(offered, gains.tolist(), strict=False)).items():
                known[giver] = known.get(giver, 0.0) + gain
        count = round.statistics["gains"].shape[1]
        rows = np.stack([self._best(client, round, count) for client in round.clients])
        for client, row in zip(round.clients, rows, strict=True):
            self._offered[client] = [round.participants[place] for place in row]
        route = {client: row for row, client in enumerate(round.clients)}
        return {"*": Pick(rows, len(round.participants), route)}

    def _best(self, client: int, round: Round, count: int) -> IntArray:
        """Return the rows of the givers that have helped a client most; equal ones in turn."""
        known, n = self._affinity.get(client, {client: 1.0}), len(round.participants)
        turn = [(place - client - round.number) % n for place in range(n)]
        worth = [known.get(giver, 0.0) for giver in round.participants]
        order = np.lexsort((turn, [-value for value in worth]))[:count]
        # where there are fewer givers, the client's own model fills up: it gains nothing
        filler = round.participants.index(client) if client in round.participants else order[-1]
        return np.concatenate([order, np.full(count - len(order), filler)])

    def state(self) -> dict[str, Any]:
        affinity = {str(c): sorted(known.items()) for c, known in self._affinity.items()}
        return {"affinity": affinity, "offered": sorted(self._offered.items())}

    def load(self, state: dict[str, Any]) -> None:
        self._affinity = {
            int(client): {int(giver): gain for giver, gain in known}
            for client, known in state.get("affinity", {}).items()
        }
        self._offered = {int(c): list(givers) for c, givers in state.get("offered", ())}
