"""A client's module in HetPFL: PraFFL's, the sampling of preferences, fused hypernetworks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from comity.algorithms.parts import frozen
from comity.algorithms.praffl import Hypernetwork, Spanning
from comity.core.scalarisations import direction_of

_WIDTH = 16  # of the network that weighs hypernetworks


class Sampling(nn.Module):
    """Distribution from which a client draws preferences, Dirichlet with α; and α's optimiser."""

    def __init__(self, objectives: int, alpha: float) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((objectives,), alpha))
        """Has a gradient in every step; changed once per phase."""
        self.largest = nn.Parameter(torch.zeros(objectives))
        """Always zero; its gradient is the largest losses of a step."""
        for name, value in (("reference", 1.0), ("slope", 0.0), ("first", 0.0), ("second", 0.0)):
            kept = nn.Parameter(torch.full((objectives,), value), requires_grad=False)
            self.register_parameter(name, kept)
        for name in ("steps", "updates"):
            self.register_parameter(name, nn.Parameter(torch.zeros(()), requires_grad=False))


class Fused(nn.Module):
    """β_g, or the network that weighs the hypernetworks of all; and whether it is to be used."""

    hyper: Hypernetwork
    weigher: nn.Sequential

    def __init__(self, **part: nn.Module) -> None:
        super().__init__()
        for name, module in part.items():
            self.add_module(name, module)
        self.ready = nn.Parameter(torch.zeros(1), requires_grad=False)


def weigher(objectives: int, clients: int) -> nn.Sequential:
    """Return the network of `shares`; at first it gives all clients the same weight."""
    last = nn.Linear(_WIDTH, clients)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(objectives, _WIDTH), nn.ReLU(), last)


def shares(logits: Tensor) -> Tensor:
    """Return ω (… x clients): sigmoids of the logits, divided by their sum."""
    values = torch.sigmoid(logits)
    return values / values.sum(dim=-1, keepdim=True)


class Heterogeneous(Spanning):
    """ψ and β, the sampling of the client, and fused hypernetworks where there shall be any."""

    sampling: Sampling

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.fused: Fused | None = None
        self.upload: nn.Module | None = None
        """β as it is sent, to be delivered unmixed."""
        self.bank: nn.Module | None = None
        """The hypernetworks of all clients, stacked."""

    def fuse(self) -> None:
        """Make room for one hypernetwork of all."""
        self.fused = Fused(hyper=deepcopy(self.hyper))

    def weigh(self, objectives: int, clients: int) -> None:
        """Make room for the hypernetworks of all, and for the network that weighs them."""
        self.fused = Fused(weigher=weigher(objectives, clients))
        self.upload, self.bank = frozen(self.hyper), frozen(self.hyper)
        for part in self.bank.modules():
            for name, tensor in list(part.named_parameters(recurse=False)):
                stacked = tensor.detach().expand(clients, *tensor.shape).clone()
                part.register_parameter(name, nn.Parameter(stacked, requires_grad=False))

    def head(self, importance: Tensor) -> list[Tensor]:
        """Return φ made by β, or by the fused hypernetworks once there are any."""
        own = super().head(importance)
        if self.fused is None:
            return own
        ready, direction = self.fused.ready > 0.5, direction_of(importance, self.least)
        common = self._weighed(direction) if self.bank else self.fused.hyper(direction)
        return [torch.where(ready, one, other) for one, other in zip(common, own, strict=True)]

    def _weighed(self, direction: Tensor) -> list[Tensor]:
        """Return φ made by Σ_k ω_k(λ) β_k, another hypernetwork at each λ."""
        assert self.fused is not None
        assert self.bank is not None
        each = direction.reshape(-1, direction.shape[-1])
        weights, bank = shares(self.fused.weigher(each)), dict(self.bank.named_parameters())
        mixed = {name: torch.einsum("mk,k...->m...", weights, bank[name]) for name in bank}
        heads = vmap(lambda hyper, one: functional_call(self.hyper, hyper, (one,)))(mixed, each)
        return [head.reshape(*direction.shape[:-1], *head.shape[1:]) for head in heads]
