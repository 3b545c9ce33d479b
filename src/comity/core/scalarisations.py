"""Scalarisations: one loss from several, according to a preference.

In all functions ``losses`` are f − z, measured from the ideal point z, with the objectives on the
last axis; smaller is better. An *importance* w is a preference as users give it: larger means that
the objective matters more. A *direction* λ says where the losses shall end, so a large λ_k allows
a large loss; `direction_of` turns one into the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["linear", "tchebycheff", "smooth-tchebycheff", "pbi"]
"""Scalarisations by name."""
Sharpness = Literal["absolute", "relative"]
"""Whether the sharpness of a smooth maximum is that of losses over λ, or of losses times w."""


def linear(losses: Tensor, importance: Tensor) -> Tensor:
    """Return Σ_k w_k f_k. It reaches the convex parts of a front only.

    Args:
        losses: f, with the objectives on the last axis.
        importance: w, of the same shape.
    """
    return (importance * losses).sum(dim=-1)


def tchebycheff(losses: Tensor, importance: Tensor, augment: float = 0.0) -> Tensor:
    """Return max_k w_k f_k + ρ Σ_k w_k f_k. It reaches every point of a front.

    Args:
        losses: f, with the objectives on the last axis.
        importance: w, of the same shape.
        augment: ρ; above 0, no optimum is weakly dominated.
    """
    weighted = importance * losses
    return weighted.amax(dim=-1) + augment * weighted.sum(dim=-1)


def smooth_tchebycheff(losses: Tensor, direction: Tensor, smoothing: float = 1.0) -> Tensor:
    """Return (1/γ) log Σ_k exp(γ f_k / λ_k): a smooth maximum whose optimum has losses along λ.

    With 1/w in the place of λ it is μ log Σ_k exp(w_k f_k / μ), μ = 1/γ: between max_k w_k f_k and
    μ log m above it, for m objectives.

    Args:
        losses: f, with the objectives on the last axis.
        direction: λ, of the same shape.
        smoothing: γ; larger values are closer to the maximum.
    """
    return torch.logsumexp(smoothing * losses / direction, dim=-1) / smoothing


def penalty_boundary_intersection(
    losses: Tensor, direction: Tensor, penalty: float = 5.0
) -> Tensor:
    """Return d₁ + θ d₂: how far along λ, and how far beside it (Zhang & Li, 2007).

    u = λ/‖λ‖, d₁ = f·u, d₂ = ‖f − d₁ u‖. It aims at a direction and is not monotone: a dominated
    point on the ray may have the smaller value. On the ray itself d₂ has no gradient.

    Args:
        losses: f, with the objectives on the last axis.
        direction: λ, of the same shape.
        penalty: θ.
    """
    unit = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
    along = (losses * unit).sum(dim=-1, keepdim=True)
    beside = torch.linalg.vector_norm(losses - along * unit, dim=-1)
    value: Tensor = along.squeeze(-1) + penalty * beside
    return value


def direction_of(importance: Tensor, least: float) -> Tensor:
    """Return λ = (1/w) / Σ(1/w), w raised to ``least``: the direction that honours importance w.

    A more important objective gets the smaller loss; for two objectives λ = (w₂, w₁). So
    max_k f_k/λ_k is max_k w_k f_k times S = Σ_j 1/w_j.
    """
    inverse = 1.0 / importance.clamp(min=least)
    return inverse / inverse.sum(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Scalarisation:
    """A scalarisation with its parameters, used in two steps: aims of clients, then values."""

    kind: Kind = "linear"
    smoothing: float = 1.0
    """γ of the smooth Tchebycheff function."""
    sharpness: Sharpness = "absolute"
    """absolute: γ acts on f/λ, so the sharpness of S γ depends on the preference; relative: on w f,
    and the value is a smooth max_k w_k f_k for every preference."""
    augment: float = 0.0
    """ρ of the Tchebycheff function."""
    penalty: float = 5.0
    """θ of the penalty boundary intersection."""
    least: float = 0.01
    """No importance counts as less, unless the scalarisation is linear."""

    def aims(self, importance: Tensor) -> Tensor:
        """Return what `value` needs of preferences: importance w, 1/w or the direction λ.

        Args:
            importance: Preferences, with the objectives on the last axis.
        """
        match self.kind, self.sharpness:
            case "linear", _:
                return importance
            case "tchebycheff", _:
                return importance.clamp(min=self.least)
            case "smooth-tchebycheff", "relative":
                return 1.0 / importance.clamp(min=self.least)
            case _:
                return direction_of(importance, self.least)

    def value(self, losses: Tensor, aims: Tensor) -> Tensor:
        """Return one value per preference.

        Args:
            losses: Losses from the ideal point, with the objectives on the last axis.
            aims: What `aims` returned, of the same shape.
        """
        match self.kind:
            case "linear":
                return linear(losses, aims)
            case "tchebycheff":
                return tchebycheff(losses, aims, self.augment)
            case "smooth-tchebycheff":
                return smooth_tchebycheff(losses, aims, self.smoothing)
            case "pbi":
                return penalty_boundary_intersection(losses, aims, self.penalty)
