"""What a client of pFedRLLA keeps: its model in two parts, a score, a body that stands still."""

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

    The still body is there while an agent learns from nothing (with the model's head it is the
    paper's w_DRL): what a head is worth is then seen apart from what happens to bodies.
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
    """Where a tensor of the model stands still, if it does."""
    return f"still.{name.removeprefix(MODEL).replace('.', '/')}"


def head_of(shapes: Mapping[str, tuple[int, ...]], cut: str) -> list[str]:
    """The tensors of a network's head: its linear layers after the last convolution.

    Of a network without convolutions, its last linear layer. ``cut`` may name them instead, as
    patterns separated by commas.
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


def followed(parameters: Tree, told: Tensor) -> Tree:
    """Bodies that stand still, moved to where the model's is if the server has told so."""
    bodies = {k: t for k, t in parameters.items() if still(k) in parameters}
    return {still(k): torch.where(told > 0, t, parameters[still(k)]) for k, t in bodies.items()}


def seen(parameters: Tree) -> Tree:
    """The parameters by which a client is judged: with the body that stands still, if any."""
    return {name: parameters.get(still(name), tensor) for name, tensor in parameters.items()}


def shapes_of(tensors: Mapping[str, Tensor], stacked: bool = False) -> dict[str, tuple[int, ...]]:
    """By name; of a stack, without its first axis."""
    return {name: tuple(tensor.shape)[stacked:] for name, tensor in tensors.items()}
