"""What a problem is: objectives, a model's architecture, and how a model is judged."""

from __future__ import annotations

import importlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from comity.core.pareto import measures
from comity.core.typing import BoolArray, FloatArray
from comity.errors import UserError, unknown
from comity.problems.networks import ActorCritic, layers


@dataclass(frozen=True)
class Objective:
    """One thing to be good at; always stated so that more is better."""

    name: str
    unit: str
    meaning: str


EVEN = {"partition": "iid", "sizes": "equal"}
"""How data are dealt out unless somebody says otherwise."""


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """What is learned: objectives, the architecture and the yardsticks.

    ``learner`` names how clients learn it, ``defaults`` that learner's settings here.
    """

    name: str
    title: str
    objectives: tuple[Objective, ...]
    reference_point: tuple[float, ...]
    learner: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    known_front: Callable[[], FloatArray] | None = None
    """All non-dominated vectors, where they are known: makes regret and IGD exact."""
    reference_set: Path | None = None
    """A stored set of good vectors as CSV, for IGD where the front is not known."""
    run_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Run-level settings here unless somebody says otherwise: ``clients``, ``rounds``, …"""
    search: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a search here: ``reference_point``, ``iterations``, ``local_steps``, …"""

    @abstractmethod
    def model(self) -> nn.Module:
        """A fresh network of the problem's architecture."""

    @abstractmethod
    def partitioned(self, clients: int, seed: int, partition: str, sizes: str) -> Problem:
        """The problem as so many clients have it."""

    @abstractmethod
    def trivial(self, clients: Sequence[int], seed: int, episodes: int) -> FloatArray:
        """What a model that has learned nothing brings each client on its test."""

    def front(self) -> FloatArray | None:
        return None if self.known_front is None else self.known_front()

    def target(self) -> FloatArray | None:
        """What IGD measures the distance from: the known front, or a stored reference set."""
        if self.known_front is not None or self.reference_set is None:
            return self.front()
        return np.loadtxt(self.reference_set, delimiter=",", ndmin=2)

    def optimum(self, preferences: FloatArray) -> FloatArray | None:
        """The best scalarised return for each preference, where the front is known."""
        front = self.front()
        return None if front is None else np.asarray((preferences @ front.T).max(axis=1))

    def counts(self, vectors: FloatArray) -> BoolArray:
        """Which vectors count for a front; all, unless the problem knows better."""
        return np.ones(len(vectors), dtype=bool)

    def measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        """All measures of a federation that ended with these vectors, one a client."""
        target, optimum = self.target(), self.optimum(preferences)
        return measures(vectors, preferences, self.reference_point, target, optimum)

    def trivial_measures(self, vectors: FloatArray, preferences: FloatArray) -> dict[str, float]:
        """The same of the trivial baseline's vectors."""
        return self.measures(vectors, preferences)


@dataclass(frozen=True, kw_only=True)
class EnvironmentProblem(Problem):
    """Clients act in environments.

    ``environment`` makes one multi-objective environment (mo-gymnasium's interface: rewards are
    vectors).
    """

    environment: Callable[[], Any]
    learner: str = "dqn"
    hidden: tuple[int, ...] = (256, 256)
    validation_episodes: int = 1
    test_episodes: int = 1
    idle_action: int = 0
    """The action of the do-nothing policy, the trivial baseline beside every figure.

    Where actions are vectors, it is every component of them.
    """
    snapshot: Callable[[Any], tuple[float, ...]] | None = None
    """The exact state of a deterministic simulator: an episode that repeats one is in a loop."""
    place: Callable[[Any, tuple[int, ...]], None] | None = None
    """Put the simulator into a state, for problems whose few states can be tabulated."""

    def partitioned(self, clients: int, seed: int, partition: str, sizes: str) -> Problem:
        for name, value in (("partition", partition), ("sizes", sizes)):
            if value != EVEN[name]:
                raise UserError(
                    f"{name} = {value} means nothing for {self.name}: its clients have "
                    "environments, not data."
                )
        return self

    def trivial(self, clients: Sequence[int], seed: int, episodes: int) -> FloatArray:
        from comity.problems.environments import idle_returns  # it imports this module

        return idle_returns(self, clients, seed, episodes)

    def model(self) -> nn.Module:
        """A fresh network of the problem's architecture.

        With discrete actions it has one output an action; with continuous ones it is an
        `ActorCritic`.
        """
        from gymnasium.spaces import Box, Discrete

        environment = self.environment()
        width = int(np.prod(environment.observation_space.shape))
        actions = environment.action_space
        if isinstance(actions, Discrete):
            return nn.Sequential(*layers(width, self.hidden, int(actions.n)))
        if isinstance(actions, Box) and len(actions.shape) == 1 and actions.is_bounded():
            return ActorCritic(width, self.hidden, actions.low, actions.high)
        raise UserError(
            f"problem {self.name}: its action space is {actions}; it must be Discrete, or a Box of "
            "one dimension with finite bounds."
        )


_REGISTRY: dict[str, Problem] = {}


def register(problem: Problem) -> Problem:
    """Make a problem known by its name."""
    _REGISTRY[problem.name] = problem
    return problem


def problems() -> dict[str, Problem]:
    """All registered problems by name."""
    return dict(_REGISTRY)


def find(name: str | Mapping[str, Any]) -> Problem:
    """A registered problem by its name, or your own by ``module:attribute`` or as a table."""
    if not isinstance(name, str | Mapping):
        raise UserError(f"problem = {name!r}: must be a name or a table that describes your data.")
    if not isinstance(name, str):
        from comity.problems.own_table import described  # it imports this module

        return described(name)
    if ":" in name:
        module, _, attribute = name.partition(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # a module beside the user, as the shell sees it
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UserError(f"problem '{name}': {error}.") from None
        if not isinstance(found, Problem):
            raise UserError(f"problem '{name}' is a {type(found).__name__}, not a comity.Problem.")
        return found
    if name not in _REGISTRY:
        raise unknown("problem", name, _REGISTRY)
    return _REGISTRY[name]
