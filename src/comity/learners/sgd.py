"""Stochastic gradient descent with momentum for all clients of a stack at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def sgd_step(
    tensors: list[Tensor],
    grads: Sequence[Tensor],
    moments: list[Tensor],
    rate: float,
    mu: float,
    weight_decay: float = 0.0,
) -> None:
    """Take one step in place: m ← μ m + g + δ θ, θ ← θ − η m.

    Args:
        tensors: θ, stacked tensors, which are changed.
        grads: g, one per tensor.
        moments: m, one per tensor, which are changed; none where ``mu`` is 0.
        rate: η, the step size.
        mu: μ, the momentum.
        weight_decay: δ.
    """
    for place, (tensor, gradient) in enumerate(zip(tensors, grads, strict=True)):
        if weight_decay:
            gradient = gradient + weight_decay * tensor
        if mu:
            gradient = moments[place].mul_(mu).add_(gradient)
        tensor.sub_(gradient, alpha=rate)
