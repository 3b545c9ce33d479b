"""Scalarisations: one loss from several, according to a preference."""

from __future__ import annotations

import torch
from torch import Tensor


def smooth_tchebycheff(losses: Tensor, direction: Tensor, smoothing: float = 1.0) -> Tensor:
    """Return (1/γ) log Σ_k exp(γ L_k / λ_k): a smooth maximum whose optimum has losses along λ.

    Args:
        losses: L, with the objectives on the last axis.
        direction: λ, of the same shape.
        smoothing: γ; larger values are closer to the maximum.
    """
    return torch.logsumexp(smoothing * losses / direction, dim=-1) / smoothing


def direction_of(importance: Tensor, least: float) -> Tensor:
    """Return λ = (1/w) / Σ(1/w), w raised to ``least``: the direction that honours importance w.

    A more important objective gets the smaller loss; for two objectives λ = (w₂, w₁).
    """
    inverse = 1.0 / importance.clamp(min=least)
    return inverse / inverse.sum(dim=-1, keepdim=True)
