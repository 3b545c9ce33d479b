"""What algorithms and learners say to each other about a client's local work.

Hooks are written for *one* client, without a client axis: the learner maps them over the fleet,
so a site with a single client runs the very same function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from comity.fleet import Tree

Batch = Mapping[str, Tensor]
"""Some samples: ``inputs``, what the objectives speak of, and the ``weight`` of each sample."""


@dataclass(frozen=True)
class View:
    """What a client may look at while it trains."""

    received: Tree
    """What it received at the start of the round."""
    brief: Tree = field(default_factory=dict)
    """What the server answered to the survey of this round."""


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
