"""One network by itself, trained with Adam: a stack of one, whose state is plain arrays."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from comity.core.fleet import Fleet
from comity.core.typing import NamedArrays, Tree
from comity.learners.adam import Adam


class AdamTrainer:
    """Parameters, Adam's moments and the number of steps of each part.

    Args:
        module: the network.
        rate: step size.
        weight_decay: Adam's.
        parts: prefixes of names; each part is stepped by itself.
    """

    def __init__(
        self, module: nn.Module, rate: float, weight_decay: float = 0.0, *, parts: tuple[str, ...]
    ) -> None:
        self._fleet, self._rate = Fleet.of(module, 1), rate
        self._moments = [Fleet.of(module, 1) for _ in range(2)]
        for moments in self._moments:
            for tensor in moments.tensors.values():
                tensor.zero_()
        self._steps = {part: torch.zeros(1) for part in parts}
        self._adam = {}
        for part in parts:
            own, first, second = (
                list(fleet.group(f"{part}*").tensors.values())
                for fleet in (self._fleet, *self._moments)
            )
            self._adam[part] = Adam(own, first, second, weight_decay)

    @property
    def tensors(self) -> Tree:
        """The network's tensors, each with a first axis of one."""
        return self._fleet.tensors

    def tracked(self, part: str) -> Tree:
        """Return all tensors; gradients flow to those whose names begin with ``part``."""
        return {k: t.requires_grad_(k.startswith(part)) for k, t in self._fleet.tensors.items()}

    def descend(self, loss: Tensor, part: str) -> None:
        """Step a part against the gradient of a loss, computed from what `tracked` returned."""
        leaves = [t for k, t in self._fleet.tensors.items() if k.startswith(part)]
        grads = torch.autograd.grad(loss, leaves)
        for tensor in self._fleet.tensors.values():
            tensor.requires_grad_(False)
        self._adam[part].step(grads, self._steps[part], self._rate)
        self._steps[part] += 1

    def state(self) -> NamedArrays:
        """Return parameters, moments and counts, as arrays by name."""
        return {name: tensor.numpy(force=True) for name, tensor in self._tensors().items()}

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned; `KeyError` or `ValueError` where it does not fit."""
        for name, own in self._tensors().items():
            if tuple(own.shape) != state[name].shape:
                shape = tuple(own.shape)
                raise ValueError(f"{name} has shape {state[name].shape} instead of {shape}")
            own.copy_(torch.as_tensor(state[name]))

    def _tensors(self) -> Tree:
        """Return parameters, moments and counts by name."""
        fleets = zip(("now", "first", "second"), (self._fleet, *self._moments), strict=True)
        tensors = {
            f"{kind}.{name}": tensor
            for kind, fleet in fleets
            for name, tensor in fleet.tensors.items()
        }
        return tensors | {f"steps.{part}": count for part, count in self._steps.items()}
