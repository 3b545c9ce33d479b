"""How a preference makes one loss of several."""

from __future__ import annotations

import torch
from torch import Tensor


def smooth_tchebycheff(losses: Tensor, direction: Tensor, smoothing: float = 1.0) -> Tensor:
    """(1/γ) log Σ_k exp(γ L_k / λ_k): a smooth maximum whose optimum has losses along λ."""
    return torch.logsumexp(smoothing * losses / direction, dim=-1) / smoothing


def direction_of(importance: Tensor, least: float) -> Tensor:
    """λ = (1/w) / Σ(1/w), w raised to ``least``: the direction that honours an importance w.

    What is more important shall have the smaller loss; for two objectives λ = (w₂, w₁).
    """
    inverse = 1.0 / importance.clamp(min=least)
    return inverse / inverse.sum(dim=-1, keepdim=True)
