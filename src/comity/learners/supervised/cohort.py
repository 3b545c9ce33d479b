"""A cohort: the models of clients that take their steps together, and the tensors they need."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from comity.core.typing import IntArray, Tree


class ViewTensors(NamedTuple):
    """The tensors that a `View` is made of, client first; mapped, those of one client."""

    received: Tree
    """The trained tensors as the client received them at the beginning of the round."""
    broadcast: Tree
    """Values that the server broadcast to it after the survey."""
    drawn: Tree
    """Random numbers of one step; empty outside steps."""
    passes: Tensor
    """Number of times it has gone through its data in this phase."""
    steps: Tensor
    """Number of steps that it takes in this phase."""
    scale: Tensor
    """Divisor of each of its losses."""
    ideal: Tensor
    """Scaled losses from which scalarisations measure, all but the linear one."""
    aims: Tensor
    """Weights of its losses, or what else its scalarisation makes of its preference."""


@dataclass
class Cohort:
    """Models of some clients and what each of them needs for its steps, client first.

    The clients of a cohort have batches of the same size. A client may own several models.
    """

    owners: IntArray
    """Client whose data each model sees, as a row of the fleet."""
    tensors: Tree
    """The models, changed in place."""
    view: ViewTensors
    """Tensors that the hooks of a phase may look at, without the random numbers of a step."""
    linear: bool = False
    """Whether the aims are plain weights, whatever the scalarisation of the settings."""
    trained: tuple[str, ...] = ()
    """Names of the tensors that the phase trains."""
    first: Tree = field(default_factory=dict)
    """First moments of the optimiser, for the tensors that the phase trains, if it has any."""
    second: Tree = field(default_factory=dict)
    """Second moments of the optimiser, if it has any."""
    batches: Tensor = field(default_factory=lambda: torch.zeros(0))
    """Index of the batches of all steps (models, steps, batch)."""
    drawn: Tree = field(default_factory=dict)
    """Random numbers of all steps (models, steps, …)."""
    survey_gradients: list[Tensor] = field(default_factory=list)
    """Gradients of the first step, where a survey has computed them."""

    def part(self, rows: IntArray) -> Cohort:
        """Return some of the models as a cohort; all of them are not copied."""
        if len(rows) == len(self.owners):
            return self
        index = torch.as_tensor(rows)

        def take(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value[index]
            if isinstance(value, dict):
                return {name: tensor[index] for name, tensor in value.items()}
            if isinstance(value, ViewTensors):
                return ViewTensors(*map(take, value))
            if isinstance(value, list):
                return [tensor[index] for tensor in value]
            return value[rows] if isinstance(value, np.ndarray) else value

        return Cohort(**{f.name: take(getattr(self, f.name)) for f in fields(self)})

    def put_back(self, rows: IntArray, part: Cohort) -> None:
        """Write models and moments of a part to the ``rows`` that it was taken from."""
        if part is self:
            return
        index = torch.as_tensor(rows)
        for whole, some in (
            (self.tensors, part.tensors),
            (self.first, part.first),
            (self.second, part.second),
        ):
            for name, tensor in some.items():
                whole[name][index] = tensor

    def change(self, tensors: Tree, mask: Tensor | None = None) -> None:
        """Overwrite some tensors in place, for all models or for those of a mask."""
        for name, tensor in tensors.items():
            current = self.tensors[name]
            if mask is None:
                current.copy_(tensor)
            else:
                current[mask] = tensor[mask]
