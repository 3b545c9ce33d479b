"""The mathematics of deterministic policy gradients (Silver et al., 2014) for stacked networks.

A model has the tensors of an actor (``actor.…``) and of a critic (``critic.…``). The critic steps
on the squared error to target values; the actor steps up the critic.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.core.running import forward
from comity.core.storage import strip_prefix
from comity.core.typing import Tree

ACTOR, CRITIC = "actor.", "critic."


class PolicyGradient:
    """Actions, values and the two losses of stacked actors and critics.

    In all methods ``tensors`` are the stacked tensors of the models, ``observation`` has shape
    (models, batch, features) and ``action`` (models, batch, width).
    """

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        self._actor, self._critic = forward(actor), forward(critic)

    def act(self, tensors: Tree, observation: Tensor) -> Tensor:
        """Return the actions of the actors (models, batch, width)."""
        return self._actor(strip_prefix(tensors, ACTOR), observation)

    def value(self, tensors: Tree, observation: Tensor, action: Tensor) -> Tensor:
        """Return the critics' values of actions (models, batch)."""
        inputs = torch.cat([observation, action], dim=2)
        return self._critic(strip_prefix(tensors, CRITIC), inputs).squeeze(2)

    def critic_loss(
        self, tensors: Tree, observation: Tensor, action: Tensor, target: Tensor
    ) -> Tensor:
        """Return the mean squared error to target values (models, batch), summed over models."""
        value = self.value(tensors, observation, action)
        return F.mse_loss(value, target, reduction="none").mean(dim=1).sum()

    def actor_loss(self, tensors: Tree, observation: Tensor) -> Tensor:
        """Return minus the critics' mean value of the actors' actions, summed over models."""
        action = self.act(tensors, observation)
        critic = {name: tensor.detach() for name, tensor in tensors.items()}
        return -self.value(critic, observation, action).mean(dim=1).sum()
