"""What a problem is: objectives, a model's architecture, and how a model is judged."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from comity.errors import UserError, unknown
from comity.problems.networks import ActorCritic, layers


@dataclass(frozen=True)
class Objective:
    """One thing to be good at; always stated so that more is better."""

    name: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class Problem:
    """What is learned: objectives, environments, the architecture and the yardsticks.

    ``environment`` makes one multi-objective environment (mo-gymnasium's interface: rewards are
    vectors). ``learner`` names how clients learn it, ``defaults`` that learner's settings here.
    """

    name: str
    title: str
    objectives: tuple[Objective, ...]
    environment: Callable[[], Any]
    reference_point: tuple[float, ...]
    learner: str = "dqn"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    hidden: tuple[int, ...] = (256, 256)
    validation_episodes: int = 1
    test_episodes: int = 1
    idle_action: int = 0
    """The action of the do-nothing policy, the trivial baseline beside every figure.

    Where actions are vectors, it is every component of them.
    """
    known_front: Callable[[], NDArray[np.float64]] | None = None
    """All non-dominated returns, where they are known: makes regret and IGD exact."""
    reference_set: Path | None = None
    """A stored set of good returns as CSV, for IGD where the front is not known."""
    snapshot: Callable[[Any], tuple[float, ...]] | None = None
    """The exact state of a deterministic simulator: an episode that repeats one is in a loop."""
    place: Callable[[Any, tuple[int, ...]], None] | None = None
    """Put the simulator into a state, for problems whose few states can be tabulated."""

    search: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a search here: ``reference_point``, ``iterations``, ``local_steps``, …"""

    def front(self) -> NDArray[np.float64] | None:
        return None if self.known_front is None else self.known_front()

    def target(self) -> NDArray[np.float64] | None:
        """What IGD measures the distance from: the known front, or a stored reference set."""
        if self.known_front is not None or self.reference_set is None:
            return self.front()
        return np.loadtxt(self.reference_set, delimiter=",", ndmin=2)

    def optimum(self, preferences: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """The best scalarised return for each preference, where the front is known."""
        front = self.front()
        return None if front is None else np.asarray((preferences @ front.T).max(axis=1))

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


def find(name: str) -> Problem:
    """A registered problem by its name, or your own by ``module:attribute``."""
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
