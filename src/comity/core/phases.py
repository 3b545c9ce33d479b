"""The contract between algorithms and learners: phases of local training and their hooks.

Hooks are written for *one* client, without a client axis. The learner maps them over the fleet, so
a fleet of one runs the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from comity.core.typing import FloatArray, Tree

Batch = Mapping[str, Tensor]
"""Some samples: ``inputs``, the columns that the objectives need, and each sample's ``weight``."""


def _nothing(*_: object) -> Tensor:
    """Stand in for the network of a view that has none."""
    raise NotImplementedError("this view shows no network")


@dataclass(frozen=True)
class View:
    """The values and functions that a client's hooks may use while it trains."""

    received: Tree
    """Parameters at the start of the round, after the client received the server's."""
    broadcast: Tree = field(default_factory=dict)
    """The server's broadcast after this round's survey; empty without one."""
    drawn: Tree = field(default_factory=dict)
    """Random numbers of this step, one row of `Phase.draw`."""
    validation: Batch = field(default_factory=dict)
    """The client's validation samples; empty inside a loss."""
    rate: float = 0.0
    """The learner's step size."""
    rounds: int = 1
    """Number of rounds of the federation."""
    participation: float = 1.0
    """Share of the clients that take part in a round."""
    passes: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Passes over the client's data in this phase so far (scalar)."""
    preference: Tensor = field(default_factory=lambda: torch.zeros(0))
    """The client's own preference, in environments whose networks take one; else empty."""
    target: Tree = field(default_factory=dict)
    """Tensors of the client's target network, in environments whose networks take a preference."""
    progress: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Share of all environment steps that the client has taken so far (scalar), likewise."""
    steps: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Steps that the client takes in this phase, all of them (scalar); 0 in a survey."""
    forward: Callable[..., Tensor] = _nothing
    """``(parameters, inputs, …)`` -> outputs of the client's module with these parameters."""
    losses: Callable[[Tensor, Batch], Tensor] = _nothing
    """``(outputs, batch)`` -> the problem's losses, one per objective, in the learner's scale."""
    objective: Callable[[Tensor, Batch], Tensor] = _nothing
    """``(outputs, batch)`` -> the losses scalarised by the client's preference."""


Loss = Callable[[Tree, Batch, View], Tensor]
"""``(parameters, batch, view)`` -> a scalar to minimise."""
Update = Callable[[Tree, Batch, View], Tree]
"""``(parameters, training samples, view)`` -> the tensors that change, by name.

Parameters are all that the client keeps, samples all that it trains on.
"""
Draw = Callable[[np.random.Generator, int, int, Tree], Mapping[str, FloatArray]]
"""``(generator, steps, batch size, parameters)`` -> random numbers by name, one row per step.

Parameters are all that the client keeps, as they are when the phase begins, after `Phase.before`.
"""

Acting = Callable[[np.random.Generator, FloatArray], FloatArray]
"""``(generator, own preference)`` -> the preference at which a client acts in its next episode."""


@dataclass(frozen=True)
class Phase:
    """One stretch of local training: the loss, the tensors it trains and the number of steps.

    A plain ``Phase()`` minimises the client's scalarised objective over all parameters for all
    steps of the round.
    """

    penalty: Callable[[Tree, View], Tensor] | None = None
    """``(parameters, view)`` -> a scalar added to the loss, inside the same gradient, so that
    clipping and adaptive steps see both. Its view has ``received`` and ``broadcast`` only."""
    weights: Callable[[View], Tensor] | None = None
    """``(view)`` -> one weight per objective, in place of the client's scalarisation. Its view has
    ``received`` and ``broadcast`` only."""
    surveyed: bool = False
    """The first step follows the gradients that the survey took, weighted by ``weights``."""
    loss: Loss | None = None
    """Loss in place of the client's scalarised objective."""
    train: tuple[str, ...] = ("*",)
    """Name patterns of the tensors that are trained; all others stay fixed."""
    share: float = 1.0
    """Share of the round's steps that this phase takes; shares may add up to more than 1."""
    passes: float | Callable[[Tree], Tensor] | None = None
    """Passes over the client's data that this phase takes, in place of ``share``: a number, or
    ``(parameters)`` -> a scalar. Supervised learning only."""
    repeat: int = 1
    """Steps on each batch, one after the other: the phase takes as many times its share of steps,
    or of passes. Supervised learning only."""
    when: Callable[[int, int], bool] | None = None
    """``(round, rounds)`` -> whether the phase takes place in this round of so many; in all by
    default, and after the last one (fine-tuning) as in round ``rounds + 1``. Supervised learning
    only."""
    draw: Draw | None = None
    """All random numbers of the loss."""
    before: Update | None = None
    """Update before the first step."""
    after_pass: Update | None = None
    """Update after each pass over the client's data."""
    after: Update | None = None
    """Update after the last step."""
    after_step: Callable[[Tree, Tree, View], Tree] | None = None
    """``(parameters, gradients of the trained ones, view)`` -> the tensors that change after each
    step of the optimiser."""
    rate: float | None = None
    """Step size; the learner's by default. With 0 only `after_step` changes tensors."""
    steps: int | None = None
    """Largest number of steps, whatever the share."""
    per_objective: bool = False
    """Train one copy per objective alone, from the same start, and send all of them."""


@dataclass(frozen=True)
class ClientModel:
    """The module that an algorithm builds from a problem's network, and how clients use it."""

    module: nn.Module
    """Module with everything that a client keeps; its forward is the prediction."""
    conditional: bool = False
    """Its forward takes one or several preferences after the inputs."""
    rounds: int = 1
    """Number of rounds of the federation."""
    participation: float = 1.0
    """Share of the clients that take part in a round."""
    pooled: bool = False
    """The first client trains on the data of all clients, and no other client trains."""
    acting: Acting | None = None
    """Preference of the next episode, in environments whose networks take one."""


def summed(penalties: Tensor) -> Tensor:
    """Return the sum of a phase's penalties over clients, each of which must be one number.

    Args:
        penalties: What the phase's penalty returned, one row per client.
    """
    if penalties.dim() != 1:
        shape = tuple(penalties.shape[1:])
        raise TypeError(f"the penalty of a phase must be one number, got a tensor of shape {shape}")
    return penalties.sum()
