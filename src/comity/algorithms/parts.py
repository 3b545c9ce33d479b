"""Tools of algorithms: networks in two parts, layers, frozen copies, likeness of features."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from comity.errors import UserError
from comity.problems import DataProblem, Problem

_BANDWIDTHS = (10.0, 15.0, 20.0, 50.0)


class Split(nn.Module):
    """A network in two parts: the body computes features, the head outputs."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def features(self, inputs: Tensor) -> Tensor:
        """Return the body's outputs."""
        features: Tensor = self.body(inputs)
        return features

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


def split(model: nn.Module, problem: Problem) -> tuple[nn.Module, nn.Linear]:
    """Return body and head: the parts of these names, or all layers but the last, and the last."""
    body, head = getattr(model, "body", None), getattr(model, "head", None)
    if isinstance(model, nn.Sequential) and len(model) > 1:
        body, head = model[:-1], model[-1]
    if not isinstance(body, nn.Module) or not isinstance(head, nn.Linear):
        raise UserError(
            f"problem {problem.name}: its network has no head of its own. It must have parts named "
            "'body' and 'head' (an nn.Linear), or be an nn.Sequential that ends in nn.Linear."
        )
    if not isinstance(model, nn.Sequential) and isinstance(problem, DataProblem):
        _check_whole(model, Split(body, head), problem)
    return body, head


@torch.no_grad()
def _check_whole(model: nn.Module, parts: Split, problem: DataProblem) -> None:
    """Refuse a network that does more than its two parts, one after the other."""
    inputs = problem.columns()["inputs"][:2]
    model.eval()
    try:
        whole = torch.allclose(model(inputs), parts(inputs))
    except RuntimeError:  # the parts alone cannot even read the inputs
        whole = False
    model.train()
    if not whole:
        raise UserError(
            f"problem {problem.name}: its network is not head(body(inputs)). Put everything that "
            "comes before the head into the body, and nothing after the head."
        )


def frozen(module: nn.Module) -> nn.Module:
    """Return a copy that no gradient trains."""
    return deepcopy(module).requires_grad_(False)


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """Return a layer with these weights, without drawing random numbers for initial ones."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
    return layer


def mmd(x: Tensor, y: Tensor) -> Tensor:
    """Return the maximum mean discrepancy of two equally large batches of features.

    The mean over all pairs of K(x,x) + K(y,y) − 2 K(x,y), K = Σ_a exp(−‖·‖² / 2a).
    """

    def kernel(one: Tensor, other: Tensor) -> Tensor:
        square = (one.unsqueeze(1) - other.unsqueeze(0)).square().sum(dim=-1)
        return torch.stack([torch.exp(-square / (2 * a)) for a in _BANDWIDTHS]).sum(dim=0)

    return (kernel(x, x) + kernel(y, y) - 2 * kernel(x, y)).mean()
