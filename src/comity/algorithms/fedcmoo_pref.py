"""FedCMOO-Pref (Askin et al., 2024): FedCMOO towards the point of the front that r describes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from comity.algorithms.base import Survey
from comity.algorithms.fedcmoo import CommonWeights
from comity.algorithms.registry import algorithm
from comity.core.solvers import best_on_simplex
from comity.core.typing import FloatArray
from comity.settings import setting

_LEAST_PREFERENCE, _LEAST_LOSS = 1e-3, 1e-8  # the programme takes logarithms of their products
_NEARLY_WORST = 0.9


@algorithm(
    "fedcmoo-pref",
    title="FedCMOO-Pref",
    paper="Askin et al., 2024; linear programme: Mahapatra & Rajan, 2020",
    place="single solution",
    method="linearised objectives; descent towards the mean preference",
    communication="the model, one gradient and one loss an objective, preferences; back, w",
)
class FedCMOOPref(CommonWeights):
    """Steer to where r_k F_k is the same for all objectives k (EPO search).

    The paper has one preference r for all. Here r is the mean of the participants', and all clients
    train on the same w; fine-tuning serves individual preferences. The objectives must be losses
    that are not negative.
    """

    surveys: ClassVar[tuple[str, ...]] = ("gradients", "losses", "preferences")

    kappa: float = setting(
        0.2, "share of the weights that is spread evenly over the objectives", at_least=0, at_most=1
    )
    epsilon: float = setting(1e-2, "imbalance μ up to which all losses descend alike", at_least=0)

    def _choose(self, gram: FloatArray, survey: Survey, previous: FloatArray) -> FloatArray:
        """Return w = (1 − κ) α + κ / M, α by `epo`; where that has none, the previous w."""
        r = np.maximum(survey.values["preferences"].mean(axis=0), _LEAST_PREFERENCE)
        losses = np.maximum(survey.values["losses"].mean(axis=0), _LEAST_LOSS)
        alpha = epo(gram, losses, r, self.epsilon)
        return previous if alpha is None else (1 - self.kappa) * alpha + self.kappa / len(alpha)


def imbalance(losses: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:
    """Return μ = Σ_k l̂_k log(M l̂_k), l̂ = r∘l / Σ r∘l, and a_k = r_k (log(M l̂_k) − μ)."""
    share = r * losses / (r * losses).sum()
    logs = np.log(len(r) * share)
    mu = float(share @ logs)
    return mu, r * (logs - mu)


def epo(gram: FloatArray, losses: FloatArray, r: FloatArray, epsilon: float) -> FloatArray | None:
    """Return the weights α of Exact Pareto Optimal search; None where all gradients are zero.

    Balance, while μ > ε: max αᵀc, c = Ga, subject to (Gα)_j ≥ b_j: the objectives that a move
    along a would improve are free, the others may worsen by no more than that move would make
    them, and the worst ones not at all. Descent: max Σ_j (Gα)_j subject to Gα ≥ 0.
    """
    scale = gram.diagonal().mean()
    if scale <= 0 or not np.isfinite(losses).all():
        return None
    gram = gram / scale  # α stays the same, and the solver's tolerances become relative
    mu, a = imbalance(losses, r)
    if mu <= epsilon:
        return best_on_simplex(gram.sum(axis=0), gram, np.zeros(len(gram)))
    c: FloatArray = gram @ a
    if (c > 0).any():
        worst = r * losses >= _NEARLY_WORST * (r * losses).max()
        b = np.where(worst, 0.0, np.where(c > 0, -np.inf, c))
    else:
        b = np.zeros(len(gram))
    return best_on_simplex(c, gram, b)
