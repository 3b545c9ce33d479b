"""The networks that problems are learned with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def layers(inputs: int, hidden: Sequence[int], outputs: int) -> list[nn.Module]:
    """Linear layers with ReLU between them."""
    found: list[nn.Module] = []
    for width in hidden:
        found += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return [*found, nn.Linear(inputs, outputs)]


class ActorCritic(nn.Module):
    """A policy for continuous actions, and the critic that it learns from.

    Calling it is acting: observations to actions within the environment's bounds. Actor and critic
    themselves speak of actions between -1 and 1.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self, observation: int, hidden: Sequence[int], low: NDArray[Any], high: NDArray[Any]
    ) -> None:
        super().__init__()
        self.actor = nn.Sequential(*layers(observation, hidden, len(low)), nn.Tanh())
        self.critic = nn.Sequential(*layers(observation + len(low), hidden, 1))
        # the environment's, not the model's: they neither travel nor are they saved
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)

    def bounded(self, action: Tensor) -> Tensor:
        """Actions between -1 and 1, stretched to the environment's bounds."""
        return self.low + 0.5 * (action + 1.0) * (self.high - self.low)

    def forward(self, observation: Tensor) -> Tensor:
        action: Tensor = self.actor(observation)
        return self.bounded(action)
