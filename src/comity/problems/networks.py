"""Networks of the problems."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from comity.core.typing import AnyArray
from comity.errors import UserError


def layers(inputs: int, hidden: Sequence[int], outputs: int) -> list[nn.Module]:
    """Return linear layers of the ``hidden`` widths with ReLU between them."""
    stack: list[nn.Module] = []
    for width in hidden:
        stack += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return [*stack, nn.Linear(inputs, outputs)]


class ActorCritic(nn.Module):
    """A policy for continuous actions, and the critic from which it learns.

    A call maps observations to actions within the environment's bounds. For actor and critic
    themselves, actions are between -1 and 1.
    """

    low: Tensor
    high: Tensor

    def __init__(
        self, observation: int, hidden: Sequence[int], low: AnyArray, high: AnyArray
    ) -> None:
        super().__init__()
        self.actor = nn.Sequential(*layers(observation, hidden, len(low)), nn.Tanh())
        self.critic = nn.Sequential(*layers(observation + len(low), hidden, 1))
        # they belong to the environment: they neither travel nor are they saved
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)

    def bounded(self, action: Tensor) -> Tensor:
        """Return actions between -1 and 1, stretched to the environment's bounds."""
        return self.low + 0.5 * (action + 1.0) * (self.high - self.low)

    def forward(self, observation: Tensor) -> Tensor:
        action: Tensor = self.actor(observation)
        return self.bounded(action)


class Pixels(nn.Module):
    """Map from bytes to numbers between -1 and 1.

    With ``last`` the channels of a pixel lie side by side, where processors convolve faster.
    """

    def __init__(self, last: bool = False) -> None:
        super().__init__()
        self.last = last

    def forward(self, inputs: Tensor) -> Tensor:
        pixels = inputs.float() / 127.5 - 1
        return pixels.contiguous(memory_format=torch.channels_last) if self.last else pixels


class BodyAndHead(nn.Module):
    """A classifier in two named parts: ``body`` for features, ``head`` for classes.

    Personalised algorithms share one part and keep the other.
    """

    def __init__(self, body: nn.Sequential, head: nn.Linear) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(inputs))
        return logits


def cnn(channels: int, height: int, width: int, classes: int) -> BodyAndHead:
    """Return the network of the papers on personalised learning: two convolutions, two layers."""
    across = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    if min(across) < 1:
        raise UserError(
            f"pictures of {height} x {width} pixels are too small for the convolutional network, "
            "which needs 16 x 16; use a problem whose name ends in -mlp."
        )
    body = nn.Sequential(
        Pixels(last=True),
        *(nn.Conv2d(channels, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * across[0] * across[1], 512), nn.ReLU()),
    )
    return BodyAndHead(body, nn.Linear(512, classes))


def batch_norm_cnn(channels: int, height: int, width: int, classes: int) -> BodyAndHead:
    """Return the network of `cnn` with batch normalisation of all layers but the last."""
    plain = cnn(channels, height, width, classes)
    body: list[nn.Module] = []
    for layer in plain.body:
        body.append(layer)
        if isinstance(layer, nn.Conv2d):
            body.append(nn.BatchNorm2d(layer.out_channels))
        elif isinstance(layer, nn.Linear):
            body.append(nn.BatchNorm1d(layer.out_features))
    return BodyAndHead(nn.Sequential(*body), plain.head)


def mlp(channels: int, height: int, width: int, classes: int) -> BodyAndHead:
    """Return a small network without convolutions, which all clients train as one stack."""
    inputs = nn.Linear(channels * height * width, 128)
    return BodyAndHead(
        nn.Sequential(Pixels(), nn.Flatten(), inputs, nn.ReLU()), nn.Linear(128, classes)
    )
