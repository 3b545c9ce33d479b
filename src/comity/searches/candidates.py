"""Candidate generators: where a search looks next.

A generator is its settings and two hooks: `propose` gives the next weights, `learn` hears what
they led to. It holds no random state: the search hands it a stream for each call, so a resumed
search brings a generator up to date by telling it the recorded iterations again.
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
class Found:
    """What a search knows so far, one row each, in the order of solving."""

    weights: FloatArray
    """The subproblems that were solved."""
    vectors: FloatArray
    """The objectives of each subproblem's model."""
    front: FloatArray
    """The non-dominated vectors of all models evaluated."""
    budget: int
    """How many subproblems the search may solve in all."""

    def normalised(self, vectors: FloatArray) -> FloatArray:
        """Objectives on the scale of the front: 0 its worst, 1 its best value of each."""
        low, high = self.front.min(axis=0), self.front.max(axis=0)
        return np.asarray((vectors - low) / np.where(high > low, high - low, 1.0))


class Generator(Settings):
    """Base class: settings as fields, state as private attributes."""

    name: ClassVar[str]
    title: ClassVar[str]

    def propose(
        self, count: int, objectives: int, found: Found, draw: np.random.Generator
    ) -> FloatArray:
        """The next ``count`` weights (count x objectives), each on the simplex."""
        raise NotImplementedError

    def learn(
        self, weights: FloatArray, vectors: FloatArray, found: Found, draw: np.random.Generator
    ) -> None:
        """The weights proposed last led to these vectors, which ``found`` holds already."""


G = TypeVar("G", bound=type[Generator])
_REGISTRY: dict[str, type[Generator]] = {}


def generator(name: str, *, title: str) -> Callable[[G], G]:
    """Register a generator under a name."""

    def declare(cls: G) -> G:
        cls.name, cls.title = name, title
        _REGISTRY[name] = cls
        return cls

    return declare


def generators() -> dict[str, type[Generator]]:
    """All registered generators by name."""
    return dict(_REGISTRY)


def find(name: str) -> type[Generator]:
    """A registered generator by its name."""
    if name not in _REGISTRY:
        raise unknown("generator", name, _REGISTRY)
    return _REGISTRY[name]


def make(name: str, values: Mapping[str, object]) -> Generator:
    """A generator with given settings."""
    return build(find(name), values, where=name)
