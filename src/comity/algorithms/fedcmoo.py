"""FedCMOO (Askin et al., 2024): one Pareto-stationary model at one upload per client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from pydantic import PrivateAttr

from comity.algorithms.base import Algorithm, Need, Round, Survey
from comity.algorithms.registry import algorithm
from comity.core.mixing import Mixing
from comity.core.phases import Phase
from comity.core.solvers import descent_weights, project_simplex
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.problems import Problem
from comity.settings import setting


class CommonWeights(Algorithm):
    """Base of FedCMOO and FedCMOO-Pref: the round around the choice of w.

    Clients send their gradients at x, the server broadcasts one w, clients train on
    Σ_k w_k f_k, beginning with those gradients, and x ← x + η_s · mean_i (x_i^τ − x).
    """

    personal: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset({"losses"})
    surveys: ClassVar[tuple[str, ...]] = ("gradients",)

    server_rate: float = setting(1.0, "length of the server's step along the mean update", above=0)

    _weights: FloatArray | None = PrivateAttr(None)

    def broadcast(self, survey: Survey) -> dict[str, FloatArray]:
        if survey.participants:
            gram = gram_of_mean(survey)
            if self._weights is None:
                self._weights = np.full(len(gram), 1.0 / len(gram))
            if np.isfinite(gram).all():  # products of long gradients overflow
                self._weights = self._choose(gram, survey, self._weights)
        if self._weights is None:
            raise UserError("No client has finite gradients at the first model: check the losses.")
        return {"weights": self._weights}

    def _choose(self, gram: FloatArray, survey: Survey, previous: FloatArray) -> FloatArray:
        """Return the weights w of the objectives in this round.

        Args:
            gram: G, the Gram matrix of the mean gradients (objectives x objectives).
            survey: what participants sent.
            previous: w of the last round.
        """
        raise NotImplementedError

    def phases(self, problem: Problem) -> list[Phase]:
        return [Phase(weights=lambda view: view.broadcast["weights"], surveyed=True)]

    def mix(self, round: Round) -> Mapping[str, Mixing]:
        n = len(round.participants)
        mean = np.full(n, self.server_rate / n)
        return {"*": Mixing.step(mean, receivers=round.clients, base=round.start.select([0]))}


def gram_of_mean(survey: Survey) -> FloatArray:
    """Return G = J̄ᵀJ̄ of the mean Jacobian J̄ = mean_i J_i (not the mean of the clients' Grams)."""
    assert survey.gradients is not None
    n = len(survey.participants)
    objectives = len(survey.gradients) // n
    mean = np.tile(np.eye(objectives), n) / n
    return survey.gradients.mix(mean).total_gram()


@algorithm(
    "fedcmoo",
    title="FedCMOO",
    paper="Askin et al., 2024",
    place="single solution",
    method="linearised objectives; MGDA on the mean Jacobian",
    communication="the model and one gradient an objective; back, the model and their weights",
)
class FedCMOO(CommonWeights):
    """w approaches the common descent direction, argmin ‖Σ_k w_k ∇F_k‖², from round to round."""

    beta: float = setting(1e-3, "step size of FindWeights", above=0)
    iterations: int = setting(1000, "steps of FindWeights in a round", at_least=1)
    exact: bool = setting(False, "solve for w outright (not the paper's: w then forgets)")

    def _choose(self, gram: FloatArray, survey: Survey, previous: FloatArray) -> FloatArray:
        """Run FindWeights: K times w ← Π_simplex(w − β Ĝ w), Ĝ = G / ν², ν = mean_k √(G_kk + 1e-4).

        Few and small steps do not converge; that damping, and w carried over the rounds, are part
        of the method.
        """
        if self.exact:
            solved = descent_weights(gram)
            return solved if solved.any() else previous
        nu = np.sqrt(gram.diagonal() + 1e-4).mean()
        step = self.beta * gram / nu**2
        w = previous
        for _ in range(self.iterations):
            w = project_simplex(w - step @ w)
        return w
