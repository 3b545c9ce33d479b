"""Problems whose clients act in environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from comity.core.typing import FloatArray
from comity.datasets.partition import SPLIT
from comity.errors import UserError
from comity.problems.base import EVEN, Problem
from comity.problems.networks import ActorCritic, layers
from comity.problems.simulators import idle_returns


@dataclass(frozen=True, kw_only=True)
class EnvironmentProblem(Problem):
    """A problem whose clients act in environments with vectors of rewards."""

    environment: Callable[[], Any]
    """Function that makes one multi-objective environment (mo-gymnasium's interface)."""
    learner: str = "dqn"
    """``dqn`` for discrete actions, ``ddpg`` for continuous ones."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the network's hidden layers."""
    validation_episodes: int = 1
    """Default number of validation episodes per client."""
    test_episodes: int = 1
    """Default number of test episodes per client."""
    idle_action: int = 0
    """Action of the do-nothing policy, the trivial baseline beside every figure.

    Where actions are vectors, it is every component of them.
    """
    snapshot: Callable[[Any], tuple[float, ...]] | None = None
    """Exact state of a deterministic simulator: an episode that repeats one is in a loop."""
    place: Callable[[Any, tuple[int, ...]], None] | None = None
    """Function that puts the simulator into a state, where few states can be tabulated."""

    def partitioned(
        self, clients: int, seed: int, partition: str, sizes: str, split: str = SPLIT
    ) -> Problem:
        """Return the problem itself, and refuse settings that distribute data."""
        values = {"partition": partition, "sizes": sizes, "split_ratio": split}
        for name, value in values.items():
            if value != EVEN[name]:
                raise UserError(
                    f"{name} = {value} means nothing for {self.name}: its clients have "
                    "environments, not data."
                )
        return self

    def trivial(self, clients: Sequence[int], seed: int, episodes: int) -> FloatArray:
        """Return what doing nothing brings each client on its test episodes."""
        return idle_returns(self, clients, seed, episodes)

    def model(self) -> nn.Module:
        """Return a fresh network of the problem's architecture.

        With discrete actions it has one output per action; with continuous ones it is an
        `ActorCritic`.
        """
        environment = self.environment()  # first: without gymnasium its error names the extra
        from gymnasium.spaces import Box, Discrete

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
