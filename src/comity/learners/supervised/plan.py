"""The plan of one cohort's work in one phase of a round, and its division into passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from comity.core.phases import Phase
from comity.core.typing import IntArray
from comity.learners.base import Task
from comity.learners.supervised.client_data import ClientData


@dataclass(frozen=True)
class PhasePlan:
    """The work of one cohort in one phase of a round; arrays have one entry per model."""

    task: Task
    """The work of all participating clients in the round."""
    number: int
    """Number of the phase in ``task.phases``, from 0."""
    owners: IntArray
    """Client whose data each model sees, as a row of the fleet."""
    places: IntArray
    """Place of that client among the participating clients, as in ``task.goal``."""
    steps: IntArray
    """Number of steps of each model."""
    weights: Tensor | None = None
    """Weights of the objectives (models x objectives), which replace those of the phase."""

    @property
    def phase(self) -> Phase:
        """The phase itself."""
        return self.task.phases[self.number]


class Stretch(NamedTuple):
    """Steps up to the next point at which all models of a cohort meet."""

    begin: IntArray
    """Step from which each model goes on."""
    lengths: IntArray
    """Number of steps of each model."""
    complete: Tensor
    """Whether each model has completed a pass through its data at the end."""


def stretches(plan: PhasePlan, data: ClientData) -> Iterator[Stretch]:
    """Yield the steps of a phase, pass by pass if something happens after each pass.

    Args:
        plan: The cohort's work.
        data: Samples of the clients, whose number decides how many steps a pass has.
    """
    steps = plan.steps
    begin = np.zeros_like(steps)
    if plan.phase.after_pass is None:
        yield Stretch(begin, steps, torch.zeros(len(steps), dtype=torch.bool))
        return
    sizes, batch = data.sizes[plan.owners], data.batch_sizes[plan.owners]
    repeat = plan.phase.repeat
    for number in range(1, int(np.ceil(steps * batch / (sizes * repeat)).max()) + 1):
        complete = np.ceil(number * sizes / batch).astype(np.int64) * repeat
        end = np.minimum(complete, steps)
        yield Stretch(begin, end - begin, torch.as_tensor(complete <= steps))
        begin = end
