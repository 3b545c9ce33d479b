"""The module of a client of pFedRLLA: its model, a score, and a body that stands still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from comity.core.typing import Tree

MODEL = "model."
UNKNOWN = -1.0
"""The score of a client that has not trained yet."""


class ScoredModel(nn.Module):
    """A client's model, its score when it was last trained, and a body that stands still.

    The still body exists while a new agent learns (with the model's head it is the paper's
    w_DRL), so that the value of a head is measured apart from changes of bodies.

    Args:
        model: the problem's network.
        still: names of its tensors that also stand still.
    """

    def __init__(self, model: nn.Module, still: Iterable[str]) -> None:
        super().__init__()
        self.model = model
        self.score = nn.Parameter(torch.tensor(UNKNOWN), requires_grad=False)
        own = model.state_dict()
        copies = {name.replace(".", "/"): own[name].detach().clone() for name in still}
        self.still = nn.ParameterDict(
            {name: nn.Parameter(tensor, requires_grad=False) for name, tensor in copies.items()}
        )

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


def still(name: str) -> str:
    """Return the name of the still copy of a tensor of the model."""
    return f"still.{name.removeprefix(MODEL).replace('.', '/')}"


def head_of(shapes: Mapping[str, tuple[int, ...]], cut: str) -> list[str]:
    """Return the names of the tensors of a network's head.

    Args:
        shapes: of all tensors by name, in the order of the layers.
        cut: ``auto``, which is all linear layers after the last convolution or, without any
            convolution, the last linear layer; or patterns of names, separated by commas.
    """
    names = list(shapes)
    if cut != "auto":
        patterns = [pattern.strip() for pattern in cut.split(",")]
        own = {name: name.removeprefix(MODEL) for name in names}
        return [name for name in names if any(fnmatchcase(own[name], p) for p in patterns)]
    convolutions = [place for place, name in enumerate(names) if len(shapes[name]) > 2]
    linear = [place for place, name in enumerate(names) if len(shapes[name]) == 2]
    top = [place for place in linear if place > convolutions[-1]] if convolutions else linear[-1:]
    return names[top[0] :] if top else []


def followed(parameters: Tree, updated: Tensor) -> Tree:
    """Return still bodies, moved to the model's body where ``updated`` is 1 instead of 0."""
    bodies = {k: t for k, t in parameters.items() if still(k) in parameters}
    return {still(k): torch.where(updated > 0, t, parameters[still(k)]) for k, t in bodies.items()}


def evaluated(parameters: Tree) -> Tree:
    """Return the parameters by which a client is scored: with the still body, if there is one."""
    return {name: parameters.get(still(name), tensor) for name, tensor in parameters.items()}


def shapes_of(tensors: Mapping[str, Tensor], stacked: bool = False) -> dict[str, tuple[int, ...]]:
    """Return shapes by name; ``stacked`` leaves out the first axis."""
    return {name: tuple(tensor.shape)[stacked:] for name, tensor in tensors.items()}
