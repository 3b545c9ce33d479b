"""Pareto simulated annealing (Czyzak & Jaszkiewicz, 1998) on preference weights, as in MOFL/D.

A generating sample S of solved subproblems moves over the front: each member pushes its weight
away from its nearest neighbour, and is replaced by the result of that weight with a probability
that falls with the temperature.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import PrivateAttr

from comity.core.preferences import equidistant
from comity.core.typing import FloatArray
from comity.searches.candidates import Findings, Generator, generator
from comity.settings import setting

_FLOOR = 1e-3  # a weight of zero would never move under a multiplicative rule
_SAME = 1e-4  # squared distance of normalised vectors below which they are one


@generator("annealing", title="Pareto simulated annealing")
class Annealing(Generator):
    """Generator by Pareto simulated annealing; the weights are the members' lambdas."""

    alpha: float = setting(1.1, "factor by which a weight is pushed", above=1)
    temperature: float = setting(1.0, "at the start", above=0)
    cooling: float = setting(0.9, "factor on the temperature per iteration", above=0, at_most=1)
    jitter: float = setting(
        0.3,
        "share of a random weight mixed in at the start; falls with the temperature",
        at_least=0,
        at_most=1,
    )
    acceptance: Literal["linear", "chebyshev", "weak"] = setting(
        "linear", "scalar linear, strong (Chebyshev) or weak acceptance rule"
    )
    init: Literal["random", "equidistant"] = setting("random", "the weights of the first iteration")

    _lambdas: FloatArray | None = PrivateAttr(None)
    _vectors: FloatArray | None = PrivateAttr(None)
    _pushed: FloatArray | None = PrivateAttr(None)
    _cold: float = PrivateAttr(1.0)  # T_t / T_0

    def propose(
        self, count: int, objectives: int, findings: Findings, draw: np.random.Generator
    ) -> FloatArray:
        drawn = draw.dirichlet(np.ones(objectives), (2, count))
        if self._lambdas is None or self._vectors is None:
            start = equidistant(count, objectives) if self.init == "equidistant" else drawn[0]
            self._pushed = start
            return start
        sample = findings.normalised(self._vectors)
        pushed = drawn[0]
        for place in range(count):
            other = neighbour(place, sample)
            if other is not None:
                pushed[place] = push(self._lambdas[place], sample[place], sample[other], self.alpha)
        pushed = np.maximum(pushed, _FLOOR)
        self._pushed = pushed / pushed.sum(axis=1, keepdims=True)
        # jitter only enters the proposal: in the lambdas, it would pull all of them inwards
        share = self.jitter * self._cold
        return np.asarray((1 - share) * self._pushed + share * drawn[1])

    def learn(
        self,
        weights: FloatArray,
        vectors: FloatArray,
        findings: Findings,
        draw: np.random.Generator,
    ) -> None:
        assert self._pushed is not None
        if self._lambdas is None or self._vectors is None:
            self._lambdas, self._vectors = self._pushed.copy(), vectors.copy()
        else:
            temperature = self.temperature * self._cold
            old, new = findings.normalised(self._vectors), findings.normalised(vectors)
            for place, coin in enumerate(draw.random(len(vectors))):
                step = new[place] - old[place]
                chance = acceptance(step, self._pushed[place], temperature, self.acceptance)
                if coin < chance:
                    self._lambdas[place] = self._pushed[place]
                    self._vectors[place] = vectors[place]
        self._cold *= self.cooling


def neighbour(place: int, sample: FloatArray) -> int | None:
    """Return the nearest other member that neither dominates this one nor is dominated by it.

    Args:
        place: The member's row.
        sample: Normalised vectors of all members (members x objectives).
    """
    here = sample[place]
    squared = ((sample - here) ** 2).sum(axis=1)
    better, worse = (sample >= here).all(axis=1), (sample <= here).all(axis=1)
    candidates = np.flatnonzero(~better & ~worse & (squared > _SAME))
    return None if not len(candidates) else int(candidates[squared[candidates].argmin()])


def push(weight: FloatArray, here: FloatArray, there: FloatArray, alpha: float) -> FloatArray:
    """Push a weight away from a neighbour.

    lambda_j times alpha where f_j(x) >= f_j(x'), divided by alpha elsewhere; then normalised.

    Args:
        weight: lambda, on the simplex.
        here: f(x), the vector of the member itself.
        there: f(x'), the vector of its neighbour.
        alpha: The factor, above 1.
    """
    pushed = np.where(here >= there, weight * alpha, weight / alpha)
    return np.asarray(pushed / pushed.sum())


def acceptance(step: FloatArray, weight: FloatArray, temperature: float, rule: str) -> float:
    """Return the probability of accepting a step d = f(y) - f(x) in objective space.

    It is exp(min(0, g / T)) with g the sum (linear), the minimum (chebyshev) or the maximum (weak)
    of lambda_j d_j.
    """
    gains = weight * step
    gain = {"linear": gains.sum(), "chebyshev": gains.min(), "weak": gains.max()}[rule]
    return float(np.exp(min(0.0, gain / temperature)))
