"""The mathematics of deterministic policy gradients (Silver et al., 2014) for stacked networks.

A model has the tensors of an actor (``actor.…``) and of a critic (``critic.…``). The critic steps
on the squared error to a wanted value; the actor steps up the critic.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.fleet import forward
from comity.core.typing import Tree

ACTOR, CRITIC = "actor.", "critic."


class PolicyGradient:
    """Acts, values and gives the two losses, each summed over the models of a stack."""

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        self._actor, self._critic = forward(actor), forward(critic)

    def act(self, tensors: Tree, observation: Tensor) -> Tensor:
        """Actions (models, batch, width)."""
        return self._actor(_part(tensors, ACTOR), observation)

    def value(self, tensors: Tree, observation: Tensor, action: Tensor) -> Tensor:
        """What the critics expect (models, batch)."""
        inputs = torch.cat([observation, action], dim=2)
        return self._critic(_part(tensors, CRITIC), inputs).squeeze(2)

    def critic_loss(
        self, tensors: Tree, observation: Tensor, action: Tensor, wanted: Tensor
    ) -> Tensor:
        valued = self.value(tensors, observation, action)
        return F.mse_loss(valued, wanted, reduction="none").mean(dim=1).sum()

    def actor_loss(self, tensors: Tree, observation: Tensor) -> Tensor:
        own = self.act(tensors, observation)
        critic = {name: tensor.detach() for name, tensor in tensors.items()}
        return -self.value(critic, observation, own).mean(dim=1).sum()


def _part(tensors: Tree, prefix: str) -> Tree:
    """One network of the model, under the names that it has by itself."""
    return {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
