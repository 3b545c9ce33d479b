"""SCAFFOLD (Karimireddy et al., 2020): control variates against the drift of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, View
from comity.core.typing import Tree
from comity.problems import Problem
from comity.settings import setting


class Zeros(nn.Module):
    """A zero for every parameter of a network, under the same names; no gradient trains them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for name, part in model.named_children():
            self.add_module(name, Zeros(part))
        for name, parameter in model.named_parameters(recurse=False):
            zero = nn.Parameter(torch.zeros_like(parameter), requires_grad=False)
            self.register_parameter(name, zero)


class Controlled(nn.Module):
    """The network y, the server's control variate c and the client's own, c_i."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.common, self.own = model, Zeros(model), Zeros(model)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


@algorithm(
    "scaffold",
    title="SCAFFOLD",
    paper="Karimireddy et al., 2020",
    place="global model",
    method="plain mean; control variates correct the drift of clients",
    communication="the model and the common control variate, both ways; own ones stay",
)
class Scaffold(Algorithm):
    """Client i, K steps from y = x: y ← y − η (g_i(y) + c − c_i); then c_i' = mean_k g_i(y_k).

    Server, over the participants S of N clients: x ← x + η_g mean_S (y_i − x) and
    c ← c + |S| / N mean_S (c_i' − c_i), so that c is the mean of all c_i. At first both are zero.

    For plain gradient descent c_i' is option II of the paper, c_i − c + (x − y) / (K η). As a mean
    of gradients it is right for momentum and Adam, too.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    personal: ClassVar[bool] = False
    sends: ClassVar[tuple[str, ...]] = ("model.*", "common.*")

    server_rate: float = setting(1.0, "η_g: length of the server's step", above=0)

    @property
    def needs_server(self) -> str:
        return "steps from one model that all clients hold"

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Controlled(model)

    def predictor(self, module: nn.Module, preference: object) -> nn.Module:
        assert isinstance(module, Controlled)
        return module.model

    def phases(self, problem: Problem) -> list[Phase]:
        """Train with c − c_i in the place of c, and the sum of gradients in that of c_i."""

        def begin(parameters: Tree, everything: Batch, view: View) -> Tree:
            changed = {}
            for name in view.received:
                common, own = variates(name)
                changed[common] = parameters[common] - parameters[own]
                changed[own] = torch.zeros_like(parameters[own])
            return changed

        def correction(parameters: Tree, view: View) -> Tensor:
            """⟨c − c_i, y⟩, of which the gradient is c − c_i."""
            products = [parameters[variates(n)[0]] * parameters[n] for n in view.received]
            return torch.stack([product.sum() for product in products]).sum()

        def add(parameters: Tree, gradients: Tree, view: View) -> Tree:
            changed = {}
            for name, gradient in gradients.items():
                common, own = variates(name)
                changed[own] = parameters[own] + (gradient - parameters[common]) / view.steps
            return changed

        def end(parameters: Tree, everything: Batch, view: View) -> Tree:
            """Send c + c_i' − c_i, of which the server sees the change alone."""
            names = [variates(name) for name in view.received]
            return {common: parameters[common] + parameters[own] for common, own in names}

        return [Phase(before=begin, penalty=correction, after_step=add, after=end)]

    def local_phases(self, problem: Problem) -> list[Phase]:
        """Train on the client's own objective: there is no drift to correct."""
        return [Phase()]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        each, base = np.ones(len(round.participants)), round.start.select([0])
        mean = Mixing.shared(each, receivers=round.clients)
        weights = {"common.*": each / len(round.clients), "*": self.server_rate * each / len(each)}
        return dict.fromkeys(round.buffers, mean) | {
            pattern: Mixing.step(values, receivers=round.clients, base=base)
            for pattern, values in weights.items()
        }


def variates(name: str) -> tuple[str, str]:
    """Return the names of c and c_i of one parameter of the network."""
    name = name.removeprefix("model.")
    return f"common.{name}", f"own.{name}"
