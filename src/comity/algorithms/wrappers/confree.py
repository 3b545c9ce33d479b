"""ConFREE (Zheng et al., 2025): a conflict-free server step instead of the mean update.

It wraps any host whose clients share an update. Everything is computed from the Gram matrix of the
clients' updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np

from comity.algorithms.base import Algorithm, Round
from comity.algorithms.registry import algorithms
from comity.algorithms.wrappers.base import Mixings, Wrapper, wrapper
from comity.core.mixing import Mixing
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.settings import setting

_TINY = 1e-12
NOTHING = 1e-6  # of the clients' root mean square update


@dataclass(frozen=True)
class Direction:
    """d* = Σ_i weights_i Δ_i, with its parts."""

    weights: FloatArray
    guidance: FloatArray
    """ḡ = Σ_i a_i Δ_i."""
    worst: float
    """min_j ⟨d*, Δ_j⟩ before rescaling: the gain of the client that gains least."""
    dual: float
    """F(w*), equal to ``worst`` if the solver has converged."""
    solved: bool = True
    """Whether both are equal; if not, the guidance vector alone is the direction."""


@dataclass(frozen=True)
class Conflict:
    """Conflict among the updates of a round, and with the server's step."""

    pairs: float
    """Share of pairs of clients whose updates point apart."""
    mean: float
    """Share of clients whose update points against the plain mean."""
    guided: float
    """Share of clients whose update points against the step that was taken."""
    unsolved: int
    """Number of problems in which the guidance vector alone is the direction."""


def guidance(gram: FloatArray, sequential: bool = False, divided: bool = True) -> FloatArray:
    """Return a, with ḡ = Σ_i a_i Δ_i the mean of updates without the parts that oppose others.

    Args:
        gram: ⟨Δ_i, Δ_j⟩ of the clients' updates.
        sequential: project one update after the other, in the order of the clients; otherwise (the
            poster) all projections are of the original updates.
        divided: Δ_i loses ⟨Δ_i, Δ_j⟩ Δ_j / ‖Δ_j‖² (the poster); otherwise ⟨Δ_i, Δ_j⟩ Δ_j, so that
            short updates lose next to nothing and those longer than one more than their conflict.
    """
    n = len(gram)
    lengths = gram.diagonal() if divided else np.ones(n)
    if not sequential:
        opposed = np.where((gram < 0) & (lengths > _TINY)[None], gram, 0.0)
        np.fill_diagonal(opposed, 0.0)
        projected = opposed / np.maximum(lengths, _TINY)[None]
        return np.asarray((1.0 - projected.sum(axis=0)) / n)
    rows = np.eye(n)
    for i in range(n):
        for j in range(n):
            along = float(rows[i] @ gram[:, j])
            if i != j and along < 0 and lengths[j] > _TINY:
                rows[i, j] -= along / lengths[j]
    return np.asarray(rows.mean(axis=0))


def direction(
    gram: FloatArray, c: float, sequential: bool = False, divided: bool = True
) -> Direction:
    """Return argmax_d min_j ⟨d, Δ_j⟩ with ‖d − ḡ‖ ≤ c ‖ḡ‖, by its dual on the simplex.

    w* = argmin ⟨ḡ, g_w⟩ + c ‖ḡ‖ ‖g_w‖, g_w = Σ_i w_i Δ_i; d* = ḡ + c ‖ḡ‖ g_w / ‖g_w‖.

    Args:
        gram: ⟨Δ_i, Δ_j⟩ of the clients' updates.
        c: radius of the ball, as a share of ‖ḡ‖.
        sequential: as in `guidance`.
        divided: as in `guidance`; otherwise the direction depends on the scale of the updates.
    """
    n = len(gram)
    live = gram.diagonal() > _TINY * max(float(gram.diagonal().max()), _TINY)
    if n == 1 or not live.any():
        return Direction(np.ones(n) / n, np.ones(n) / n, 0.0, 0.0)
    from scipy.optimize import minimize  # slow to import, and few runs need it

    scale = float(gram.diagonal()[live].mean())
    a = guidance(gram / scale if divided else gram, sequential, divided)
    gram = gram / scale
    b, length = gram @ a, np.sqrt(max(float(a @ gram @ a), 0.0))
    if length < NOTHING:  # updates cancel: what is left is rounding error
        return Direction(a, a, 0.0, 0.0)
    inside = gram[np.ix_(live, live)]

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        norm = np.sqrt(max(float(w @ inside @ w), 0.0) + _TINY)
        return float(b[live] @ w) + c * length * norm, b[live] + c * length * (inside @ w) / norm

    size = int(live.sum())
    corner = int(np.argmin([value(vertex)[0] for vertex in np.eye(size)]))
    simplex: Any = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    solutions = [
        minimize(
            value,
            start,
            jac=True,
            bounds=[(0.0, 1.0)] * size,
            method="SLSQP",
            constraints=simplex,
            options={"ftol": 1e-12, "maxiter": 500},
        )
        for start in (np.full(size, 1.0 / size), np.eye(size)[corner])
    ]
    best = min(solutions, key=lambda solution: float(solution.fun))
    w = np.zeros(n)
    w[live] = np.clip(best.x, 0.0, None)
    w /= w.sum()
    norm = np.sqrt(max(float(w @ gram @ w), 0.0) + _TINY)
    weights = a + c * length / norm * w
    worst, dual = float((gram[live] @ weights).min()), value(w[live])[0]
    # the least gain is the value of the dual, or the solver has not converged
    solved = abs(worst - dual) <= 1e-3 * max(abs(dual), length) + NOTHING
    return Direction(weights if solved else a, a, worst * scale, dual * scale, solved)


@wrapper(
    "confree",
    title="ConFREE: a conflict-free server step",
    paper="Zheng et al., 2025",
    place="clients as objectives",
    method="step without conflict with any client's update, near their mean",
)
class ConFREE(Wrapper):
    """Put a conflict-free step in the place of a host's mean: `direction`, over 1 + c²."""

    c: float = setting(0.4, "how far the step may leave the guidance vector", above=0, below=1)
    scope: Literal["tensor", "model"] = setting("tensor", "one problem a tensor, or one in all")
    guidance: Literal["simultaneous", "sequential"] = setting(
        "simultaneous", "projections of the original updates, or one after the other"
    )
    projection: Literal["poster", "public"] = setting(
        "poster", "divided by ‖Δ_j‖²; public: not, as in the public code: milder for short updates"
    )
    rescale: bool = setting(True, "divide the step by 1 + c², as the public code does")

    @classmethod
    def check(cls, algorithm: type[Algorithm]) -> None:
        """Refuse a host without `Algorithm.shared_update`."""
        if not algorithm.shared_update:
            hosts = [name for name, host in algorithms().items() if host.shared_update]
            raise UserError(
                f"{cls.declaration.name} takes the place of a mean of updates that clients share; "
                f"{algorithm.declaration.name} has none. It works with {', '.join(sorted(hosts))}."
            )

    def adjust(
        self, mixings: Mixings, round: Round, shared_update: Sequence[str]
    ) -> tuple[Mixings, dict[str, float]]:
        """Put a step in place of the mean of each shared tensor; the figures are a `Conflict`."""
        names = [n for n in round.sent if any(fnmatchcase(n, pattern) for pattern in shared_update)]
        grams = round.sent.group(*names).gram(round.start)
        total: FloatArray = sum(grams.values(), np.zeros(()))
        if self.scope == "model":
            directions = dict.fromkeys(names, self._direction(total))
        else:
            directions = {name: self._direction(gram) for name, gram in grams.items()}
        factor = 1 / (1 + self.c**2) if self.rescale and len(total) > 1 else 1.0
        weights = {
            name: self._step(factor * each.weights, grams[name])
            for name, each in directions.items()
        }
        base = round.start.select([0])
        steps = {n: Mixing.step(w, receivers=round.clients, base=base) for n, w in weights.items()}
        gains = np.stack([grams[name] @ weights[name] for name in names]).sum(axis=0)
        conflict = Conflict(
            pairs=_negative(total[~np.eye(len(total), dtype=bool)]),
            mean=_negative(total.sum(axis=1)),
            guided=_negative(gains),
            unsolved=sum(not each.solved for each in directions.values()),
        )
        return {**steps, **mixings}, asdict(conflict)

    def _direction(self, gram: FloatArray) -> Direction:
        return direction(gram, self.c, self.guidance == "sequential", self.projection == "poster")

    def _step(self, weights: FloatArray, gram: FloatArray) -> FloatArray:
        """Return the weights of the step that is taken, from those of the conflict-free one.

        Args:
            weights: One per client.
            gram: ⟨Δ_i, Δ_j⟩ of the clients' updates of one tensor.
        """
        return weights


def _negative(values: FloatArray) -> float:
    return float((values < 0).mean()) if values.size else 0.0
