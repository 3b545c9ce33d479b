"""Candidate generators: the weights that a search tries next.

A generator consists of its settings and two hooks: `propose` returns the next weights, `learn`
receives the objectives that they led to. It holds no random state: the search passes a stream to
each call, so a resumed search brings a generator up to date by repeating the recorded iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import unknown
from comity.settings import Settings, build


@dataclass(frozen=True)
class Findings:
    """The results of a search so far, one row each, in the order of solving."""

    weights: FloatArray
    """Weights of the solved subproblems (solved x objectives)."""
    vectors: FloatArray
    """Objectives of each subproblem's model (solved x objectives)."""
    front: FloatArray
    """Non-dominated vectors of all models evaluated (points x objectives)."""
    budget: int
    """Number of subproblems that the search may solve in all."""

    def normalised(self, vectors: FloatArray) -> FloatArray:
        """Return objectives on the scale of the front: 0 its worst, 1 its best value of each."""
        low, high = self.front.min(axis=0), self.front.max(axis=0)
        return np.asarray((vectors - low) / np.where(high > low, high - low, 1.0))


class Generator(Settings):
    """Base class of generators: settings as fields, state as private attributes."""

    name: ClassVar[str]
    title: ClassVar[str]

    def propose(
        self, count: int, objectives: int, findings: Findings, draw: np.random.Generator
    ) -> FloatArray:
        """Return the next weights (count x objectives), each on the simplex.

        Args:
            count: Number of weights to return.
            objectives: Number of objectives of the problem.
            findings: The results of all earlier iterations.
            draw: The iteration's own stream of random numbers.
        """
        raise NotImplementedError

    def learn(
        self,
        weights: FloatArray,
        vectors: FloatArray,
        findings: Findings,
        draw: np.random.Generator,
    ) -> None:
        """Take note of the results of the last proposal.

        Args:
            weights: The weights as they were proposed (count x objectives).
            vectors: The objectives of each weight's model (count x objectives).
            findings: The results of all iterations, this one included.
            draw: A stream of random numbers for this call.
        """


G = TypeVar("G", bound=type[Generator])
_REGISTRY: dict[str, type[Generator]] = {}


def generator(name: str, *, title: str) -> Callable[[G], G]:
    """Return a class decorator that registers a generator.

    Args:
        name: The name by which settings and the command line refer to it.
        title: A short description for lists.
    """

    def declare(cls: G) -> G:
        cls.name, cls.title = name, title
        _REGISTRY[name] = cls
        return cls

    return declare


def generators() -> dict[str, type[Generator]]:
    """Return all registered generators by name."""
    return dict(_REGISTRY)


def find(name: str) -> type[Generator]:
    """Return a registered generator by its name."""
    if name not in _REGISTRY:
        raise unknown("generator", name, _REGISTRY)
    return _REGISTRY[name]


def make(name: str, values: Mapping[str, object]) -> Generator:
    """Return a generator with the given settings."""
    return build(find(name), values, where=name)
