"""Base of all problems: objectives, an architecture, measures of a federation's result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from comity.core.pareto import measures, set_measures
from comity.core.typing import BoolArray, FloatArray
from comity.datasets.partition import SPLIT


@dataclass(frozen=True)
class Objective:
    """One thing to be good at, stated so that more is better."""

    name: str
    """Short name in results and preferences, e.g. ``accuracy``."""
    unit: str
    """Unit of its values, e.g. ``steps``."""
    meaning: str
    """Explanation in a few words."""


EVEN = {"partition": "stratified", "sizes": "equal", "split_ratio": SPLIT}
"""Default values of the settings that distribute data among clients."""


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """Objectives, architecture and yardsticks of what is learned.

    Fields that are mappings or sequences do not take part in the hash, so that a problem can be the
    key of a cache.
    """

    name: str
    """Name under which the problem is registered and runs are stored."""
    title: str
    """Description in one line."""
    objectives: tuple[Objective, ...] = field(hash=False)
    reference_point: tuple[float, ...] = field(hash=False)
    """Vector from which hypervolumes are measured, one value per objective."""
    learner: str
    """Name of the learner with which clients improve their models."""
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Default settings of the learner for this problem."""
    known_front: Callable[[], FloatArray] | None = None
    """All non-dominated vectors, where they are known: makes regret and IGD exact."""
    reference_set: Path | None = None
    """CSV file with a set of good vectors, for IGD where the front is not known."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Default run-level settings for this problem: ``clients``, ``rounds``, …"""
    licence: str = ""
    """Licence of the data, where it is known."""
    search: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Default settings of a search: ``reference_point``, ``iterations``, ``local_steps``, …"""

    @abstractmethod
    def model(self) -> nn.Module:
        """Return a fresh network of the problem's architecture."""

    @abstractmethod
    def partitioned(
        self, clients: int, seed: int, partition: str, sizes: str, split: str = SPLIT
    ) -> Problem:
        """Return the problem as ``clients`` clients have it.

        Args:
            clients: Number of clients.
            seed: Seed of the run, which decides all random draws.
            partition: Rule that distributes data, e.g. ``stratified`` or ``dirichlet:0.5``.
            sizes: Relative numbers of rows of the clients, e.g. ``equal`` or ``3,2,1``.
            split: Parts of a client's rows for training, validation and test.
        """

    @abstractmethod
    def trivial(self, clients: Sequence[int], seed: int, episodes: int) -> FloatArray:
        """Return the test result of a model that has learned nothing (clients x objectives).

        Args:
            clients: Numbers of the clients to evaluate.
            seed: Seed of the run, which decides test episodes.
            episodes: Test episodes per client; ignored where clients have data.
        """

    def front(self) -> FloatArray | None:
        """Return the known front (points x objectives), or None."""
        return None if self.known_front is None else self.known_front()

    def target(self) -> FloatArray | None:
        """Return the points from which IGD measures: the known front or the reference set."""
        if self.known_front is not None or self.reference_set is None:
            return self.front()
        return np.loadtxt(self.reference_set, delimiter=",", ndmin=2)

    @property
    def target_name(self) -> str:
        """Name of these points in results: the known front, or the file of the reference set."""
        if self.known_front is None and self.reference_set is not None:
            return self.reference_set.name
        return "known front"

    def optimum(self, preferences: FloatArray) -> FloatArray | None:
        """Return the best scalarised return per preference (row), where the front is known."""
        front = self.front()
        return None if front is None else np.asarray((preferences @ front.T).max(axis=1))

    def counts(self, vectors: FloatArray) -> BoolArray:
        """Return which vectors (rows) count for a front: by default all."""
        return np.ones(len(vectors), dtype=bool)

    def front_measures(
        self, vectors: FloatArray, reference_point: Sequence[float]
    ) -> dict[str, float]:
        """Return the measures of a set of vectors, whoever they belong to.

        Args:
            vectors: Objective vectors that count, one row each.
            reference_point: Vector from which hypervolumes are measured.
        """
        return set_measures(vectors, reference_point, self.target())

    def measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        """Return all measures of a federation that ended with these vectors.

        Args:
            vectors: Objective vectors, one row per client.
            preferences: Preferences, one row per client.
        """
        target, optimum = self.target(), self.optimum(preferences)
        return measures(vectors, preferences, self.reference_point, target, optimum)

    def trivial_measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        """Return the measures of the trivial baseline; arguments as in `measures`."""
        return self.measures(vectors, preferences)
