"""pFedRLLA's agent: it maps embeddings of clients to weights over givers.

It is DDPG on episodes of one step: a state (the embeddings of the givers, the receiver's last), an
action (weights on the simplex) and a reward. Nothing follows the step, so the target value is the
reward itself, and there is neither discount nor target network.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from comity.algorithms.pfedrlla.trainer import AdamTrainer
from comity.core.devices import CPU, in_double, placed
from comity.core.typing import Float32Array, FloatArray, NamedArrays
from comity.learners.deterministic import ACTOR, CRITIC, PolicyGradient
from comity.learners.replay import Replay
from comity.problems.networks import layers

Kind = Literal["flat", "pairwise"]

_HIDDEN = (256, 256)
_RATE = 1e-3
_ONE = np.array([0])


class Flat(nn.Module):
    """The paper's actor: all embeddings in, one weight per slot out."""

    def __init__(self, slots: int, width: int, squashed: bool) -> None:
        super().__init__()
        bound = [nn.Tanh()] if squashed else []
        self.weigh = nn.Sequential(*layers(slots * width, _HIDDEN, slots), *bound)

    def forward(self, state: Tensor) -> Tensor:
        return torch.softmax(self.weigh(state), dim=-1)


class Pairwise(nn.Module):
    """Actor that weighs each slot by its embedding and the receiver's, all slots alike.

    It takes any number of givers, in any order.
    """

    def __init__(self, width: int, squashed: bool) -> None:
        super().__init__()
        bound = [nn.Tanh()] if squashed else []
        self.width = width
        self.weigh = nn.Sequential(*layers(3 * width + 1, _HIDDEN[:1], 1), *bound)

    def forward(self, state: Tensor) -> Tensor:
        return torch.softmax(self.weigh(pairs(state, self.width)).squeeze(-1), dim=-1)


class PairwiseCritic(nn.Module):
    """Critic that values an action by a weighted sum over slots."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.read = nn.Sequential(*layers(3 * width + 2, _HIDDEN[:1], _HIDDEN[0]))
        self.value = nn.Sequential(nn.ReLU(), *layers(_HIDDEN[0], _HIDDEN[1:], 1))

    def forward(self, inputs: Tensor) -> Tensor:
        slots = inputs.shape[-1] // (self.width + 1)
        state, action = inputs[..., :-slots], inputs[..., -slots:]
        # weights enter twice, so that one large weight differs from many small ones
        each = torch.cat([pairs(state, self.width), action.unsqueeze(-1)], dim=-1)
        value: Tensor = self.value((action.unsqueeze(-1) * self.read(each)).sum(dim=-2))
        return value


def pairs(state: Tensor, width: int) -> Tensor:
    """Return per slot its embedding, the receiver's (the last slot), their product and a mark."""
    each = state.reshape(*state.shape[:-1], -1, width)
    own = each[..., -1:, :].expand_as(each)
    itself = torch.zeros_like(each[..., :1])
    itself[..., -1, :] = 1.0
    return torch.cat([each, own, each * own, itself], dim=-1)


class Networks(nn.Module):
    """Actor and critic."""

    def __init__(self, kind: Kind, slots: int, width: int, squashed: bool) -> None:
        super().__init__()
        self.actor: nn.Module
        self.critic: nn.Module
        if kind == "pairwise":
            self.actor, self.critic = Pairwise(width, squashed), PairwiseCritic(width)
        else:
            self.actor = Flat(slots, width, squashed)
            self.critic = nn.Sequential(*layers(slots * (width + 1), _HIDDEN, 1))


class Agent:
    """One agent for all clients.

    Args:
        slots: the number of givers and the receiver itself.
        width: of an embedding.
        kind: ``pairwise``, for any number of slots, or ``flat``, as published.
        squashed: tanh before the softmax, as in the public code.
        memory: the number of episodes that it remembers.
    """

    def __init__(self, slots: int, width: int, *, kind: Kind, squashed: bool, memory: int) -> None:
        with placed(CPU):  # the same numbers on every device
            networks = Networks(kind, slots, width, squashed)
        self._gradient = PolicyGradient(networks.actor, networks.critic)
        self._trainer = AdamTrainer(networks, _RATE, parts=(ACTOR, CRITIC))
        self._replay = Replay(
            1,
            memory,
            before=np.zeros(slots * width, np.float32),
            action=np.zeros(slots, np.float32),
            reward=np.zeros((), np.float32),
        )

    @torch.no_grad()
    def act(self, states: Float32Array) -> FloatArray:
        """Return weights (clients, slots) for states (clients, slots x width)."""
        batch = torch.as_tensor(states)[None]
        return in_double(self._gradient.act(self._trainer.tensors, batch)[0])

    def remember(self, state: Float32Array, action: FloatArray, reward: float) -> None:
        """Add one episode: a state (slots x width), the weights taken (slots), its reward."""
        self._replay.add(
            _ONE, before=state[None], action=action[None], reward=np.array([reward], np.float32)
        )

    @property
    def episodes(self) -> int:
        """Number of all episodes so far."""
        return self._replay.added

    def learn(self, generator: np.random.Generator, steps: int, batch_size: int) -> None:
        """Take ``steps`` steps of critic and actor, each on ``batch_size`` remembered episodes."""
        for _ in range(steps):
            batch = self._replay.sample(_ONE, generator.random((1, batch_size)))
            tracked = self._trainer.tracked(CRITIC)
            loss = self._gradient.critic_loss(
                tracked, batch["before"], batch["action"], batch["reward"]
            )
            self._trainer.descend(loss, CRITIC)
            tracked = self._trainer.tracked(ACTOR)
            self._trainer.descend(self._gradient.actor_loss(tracked, batch["before"]), ACTOR)

    def state(self) -> NamedArrays:
        """Return its networks and all episodes that it remembers, as arrays by name."""
        parts = {"networks": self._trainer.state(), "memory": self._replay.state()}
        return {f"{part}.{name}": a for part, arrays in parts.items() for name, a in arrays.items()}

    def load(self, state: NamedArrays) -> None:
        """Take back what `state` returned; a file of networks has no episodes."""
        parts: dict[str, NamedArrays] = {"networks": {}, "memory": {}}
        for name, value in state.items():
            kind, _, rest = name.partition(".")
            parts[kind][rest] = value
        self._trainer.load(parts["networks"])
        if parts["memory"]:
            self._replay.load(parts["memory"])
