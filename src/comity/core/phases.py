"""What algorithms and learners say to each other about a client's local work.

Hooks are written for *one* client, without a client axis: the learner maps them over the fleet,
so a site with a single client runs the very same function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from comity.core.typing import FloatArray, Tree

Batch = Mapping[str, Tensor]
"""Some samples: ``inputs``, what the objectives speak of, and the ``weight`` of each sample."""


def _nothing(*_: object) -> Tensor:
    raise NotImplementedError("this view shows no network")


@dataclass(frozen=True)
class View:
    """What a client may look at while it trains."""

    received: Tree
    """What it received at the start of the round."""
    broadcast: Tree = field(default_factory=dict)
    """What the server answered to the survey of this round."""
    drawn: Tree = field(default_factory=dict)
    """The random numbers of this step, as `Phase.draw` gave them."""
    validation: Batch = field(default_factory=dict)
    """The client's validation samples; in a loss, none."""
    rate: float = 0.0
    """The learner's step size."""
    rounds: int = 1
    """How many rounds the federation has in all."""
    passes: Tensor = field(default_factory=lambda: torch.zeros(()))
    """How often it has gone through its data in this phase."""
    forward: Callable[..., Tensor] = _nothing
    """``(parameters, inputs, …)``: what the client's module answers with these parameters."""
    losses: Callable[[Tensor, Batch], Tensor] = _nothing
    """``(outputs, batch)``: the problem's losses, in the learner's scale."""
    objective: Callable[[Tensor, Batch], Tensor] = _nothing
    """``(outputs, batch)``: the client's own objective, which its preference makes of them."""


Loss = Callable[[Tree, Batch, View], Tensor]
Update = Callable[[Tree, Batch, View], Tree]
"""From all that a client keeps and all its training samples: the tensors that change."""


@dataclass(frozen=True)
class Phase:
    """One stretch of local training.

    The learner minimises its own objective plus ``penalty(parameters, view)``, a scalar, inside
    the same gradient, so that clipping and adaptive steps see both.
    """

    penalty: Callable[[Tree, View], Tensor] | None = None
    weights: Callable[[View], Tensor] | None = None
    """How much each objective counts, in place of the client's own scalarisation."""
    surveyed: bool = False
    """The first step goes along the gradients that the survey took, so weighted."""
    loss: Loss | None = None
    """What is minimised in place of the client's own scalarised objective."""
    train: tuple[str, ...] = ("*",)
    """Which tensors are trained, as patterns of their names; the others stand still."""
    share: float = 1.0
    """How many of the round's steps this phase takes; phases may come to more than all of them."""
    draw: Callable[[np.random.Generator, int, int], Mapping[str, FloatArray]] | None = None
    """All random numbers that the loss uses in so many steps on batches of so many samples.

    One row a step.
    """
    before: Update | None = None
    """What the client sets before the first step."""
    after_pass: Update | None = None
    """What the client changes each time it has gone through its data."""
    after: Update | None = None
    """What the client sets after the last step."""
    after_step: Callable[[Tree, Tree, View], Tree] | None = None
    """(parameters, gradients of the trained ones): what changes beside the optimiser's step."""
    rate: float | None = None
    """Its step size, if not the learner's; 0: `after_step` alone changes anything."""
    steps: int | None = None
    """So many steps at most, whatever its share of the round's."""
    per_objective: bool = False
    """Clients train one copy per objective alone, from the same start, and send all of them."""


@dataclass(frozen=True)
class ClientModel:
    """What an algorithm makes of a problem's network, and how clients use it."""

    module: nn.Module
    """Holds everything that a client keeps; its forward is the prediction."""
    conditional: bool = False
    """Its forward takes a preference, or several, after the inputs."""
    rounds: int = 1
    """How many there are in all."""
    pooled: bool = False
    """The first client trains on the data of all; nobody else trains."""
