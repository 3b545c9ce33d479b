"""What algorithms and learners say to each other about a client's local work.

Hooks are written for *one* client, without a client axis: the learner maps them over the fleet,
so a site with a single client runs the very same function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from comity.fleet import Tree


@dataclass(frozen=True)
class View:
    """What a client may look at while it trains: what it received at the start of the round."""

    received: Tree


@dataclass(frozen=True)
class Phase:
    """One stretch of local training.

    The learner minimises its own objective plus ``penalty(parameters, view)``, a scalar, inside
    the same gradient, so that clipping and adaptive steps see both.
    """

    penalty: Callable[[Tree, View], Tensor] | None = None
