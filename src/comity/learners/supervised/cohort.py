"""A crew: clients that take their steps together, and everything that goes with them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import Tensor

from comity.core.typing import IntArray, Tree


@dataclass
class Cohort:
    """Models of some clients and what each of them needs for its steps, client first."""

    owners: IntArray
    """Whose data each model sees."""
    tensors: Tree
    received: Tree
    broadcast: Tree
    scale: Tensor
    passes: Tensor
    aims: Tensor
    """What each model's losses are weighed by."""
    given: bool = False
    """The aims are plain weights, whatever the client's scalarisation."""
    first: Tree = field(default_factory=dict)
    """The optimiser's moments, for the tensors that are trained."""
    second: Tree = field(default_factory=dict)
    batches: Tensor = field(default_factory=lambda: torch.zeros(0))
    drawn: Tree = field(default_factory=dict)
    stored: list[Tensor] = field(default_factory=list)
    """The gradients of the first step, where the survey took them."""

    def part(self, rows: IntArray) -> Cohort:
        """Some of the models; all of them are not copied."""
        if len(rows) == len(self.owners):
            return self
        index = torch.from_numpy(rows)

        def taken(value: object) -> object:
            if isinstance(value, Tensor):
                return value[index]
            if isinstance(value, dict):
                return {name: tensor[index] for name, tensor in value.items()}
            if isinstance(value, list):
                return [tensor[index] for tensor in value]
            return value[rows] if isinstance(value, np.ndarray) else value

        return Cohort(**{f.name: taken(getattr(self, f.name)) for f in fields(self)})  # type: ignore[arg-type]

    def take_back(self, rows: IntArray, part: Cohort) -> None:
        """Put what steps have changed where it came from."""
        if part is self:
            return
        index = torch.from_numpy(rows)
        for own, other in (
            (self.tensors, part.tensors),
            (self.first, part.first),
            (self.second, part.second),
        ):
            for name, tensor in other.items():
                own[name][index] = tensor

    def change(self, tensors: Tree, whom: Tensor | None = None) -> None:
        """Overwrite some tensors, in place, for all clients or some of them (a mask)."""
        for name, tensor in tensors.items():
            own = self.tensors[name]
            if whom is None:
                own.copy_(tensor)
            else:
                own[whom] = tensor[whom]
