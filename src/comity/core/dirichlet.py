"""Dirichlet distributions of preferences: densities with gradients, and smooth draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from comity.core.typing import FloatArray


def log_density(importance: Tensor, alpha: Tensor) -> Tensor:
    """Return log p of preferences (draws x objectives) under the Dirichlet distribution of α."""
    scale = torch.lgamma(alpha.sum()) - torch.lgamma(alpha).sum()
    return scale + ((alpha - 1) * importance.log()).sum(dim=-1)


def draw_dirichlet(
    generator: np.random.Generator, alpha: FloatArray, shape: Sequence[int]
) -> FloatArray:
    """Return draws (*shape, objectives) that move smoothly with α.

    They are made of quantiles of gamma distributions, so rounding errors of α do not make other
    draws, as they may where candidates are rejected.

    Args:
        generator: Source of the uniform numbers, as many as there are entries.
        alpha: α, one entry per objective.
        shape: Shape of the result without its last axis.
    """
    from scipy.special import gammaincinv

    uniform = np.maximum(generator.random((*shape, len(alpha))), 1e-12)
    gammas = gammaincinv(alpha, uniform)
    return np.asarray(gammas / gammas.sum(axis=-1, keepdims=True))
