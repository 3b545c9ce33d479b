"""FairBatch (Roh et al., 2021): weights for labels and groups of people that level their losses.

A *cell* (y, z) holds a client's samples of label y in group z; m_yz is their number, l_yz the sum
of their cross entropies. What several fair algorithms share is here.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.algorithms.base import Algorithm
from comity.core.phases import Batch, Phase, View
from comity.core.typing import FloatArray, Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting

PRAFFL = tuple(
    f"praffl-{data}{loss}"
    for data in ("synthetic", "compas", "bank", "adult")
    for loss in ("", "-cov2")
)
"""The problems on which PraFFL's authors ran the fair algorithms."""


def cross_entropy(outputs: Tensor, label: Tensor) -> Tensor:
    """Of each sample, from one logit or from one a class."""
    if outputs.shape[-1] == 1:
        return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), label, reduction="none")
    return F.cross_entropy(outputs, label.long(), reduction="none")


def says_yes(outputs: Tensor) -> Tensor:
    """Whether each sample's answer is yes (1 or 0)."""
    margin = outputs[..., 0] if outputs.shape[-1] == 1 else outputs[..., 1] - outputs[..., 0]
    return (margin > 0).to(outputs.dtype)


class Cells:
    """The cells of a problem with one attribute."""

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem, DataProblem)
        ((self.column, self.groups),) = problem.attributes.items()

    def members(self, batch: Batch) -> Tensor:
        """The weight of each sample in each group (samples x groups)."""
        own = batch[self.column].unsqueeze(-1) == torch.arange(self.groups)
        return own * batch["weight"].unsqueeze(-1)

    def sums(self, values: Tensor, batch: Batch) -> Tensor:
        """Values of samples, summed by label and group (2 x groups)."""
        label = batch["label"].unsqueeze(-1) == torch.arange(2)
        return torch.einsum("iy,iz,i->yz", label.to(values.dtype), self.members(batch), values)

    def counts(self, batch: Batch) -> Tensor:
        """m_yz."""
        return self.sums(torch.ones_like(batch["weight"]), batch)

    def pick(self, table: Tensor, batch: Batch) -> Tensor:
        """The entry of a table (2 x groups) that belongs to each sample."""
        return table[batch["label"].long(), batch[self.column]]


class Balanced(nn.Module):
    """A network with the weights that its client gives to labels and groups."""

    def __init__(self, model: nn.Module, groups: int) -> None:
        super().__init__()
        self.model = model
        self.balance = nn.Parameter(torch.zeros(2, groups), requires_grad=False)
        """λ(y, z), the weight of label y within group z."""
        self.cells = nn.Parameter(torch.zeros(2, groups), requires_grad=False)
        """m_yz; all zero before the client has looked at its data."""
        self.total = nn.Parameter(torch.zeros(()), requires_grad=False)
        """The sum of all samples' weights."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


def sample_weights(balance: Tensor, counts: Tensor) -> Tensor:
    """v = λ(y, z) / m_z of a sample in each cell."""
    return balance / counts.sum(dim=0).clamp(min=1)


def rebalanced(
    balance: Tensor, losses: Tensor, cells: Tensor, passes: Tensor, alpha: float
) -> Tensor:
    """λ after a pass: more weight to a label in the group that has learned it worse.

    With g_z = (l_0z − l_1z) / m_z, for two groups λ(0,1) takes a step of α / passes in the
    direction of g_1 − g_0, and λ(0,0) the opposite one; for more, λ(0,z) moves by √α (g_z − g_0)
    and λ(0,0) by minus the sum of these. λ(1,z) = 1 − λ(0,z). This levels how often groups get a
    yes, as FedFB's step does; the opposite signs, as public code has them for two groups, drive
    groups apart.
    """
    apart = (losses[0] - losses[1]) / cells.sum(dim=0).clamp(min=1)
    behind = apart[1:] - apart[0]
    if len(apart) == 2:
        step = alpha / passes * torch.where(behind > 0, 1.0, -1.0)
    else:
        step = alpha**0.5 * behind
    first = balance[0] + torch.cat([-step.sum(dim=0, keepdim=True), step])
    first = first.clamp(0.0, 1.0)
    return torch.stack([first, 1 - first])


class FairBatch(Algorithm):
    """Clients train on Σ_i v_i CE_i, v_i = λ(y_i, z_i) / m_{z_i}, and move λ after every pass."""

    personal: ClassVar[bool] = False
    needs_groups: ClassVar[bool] = True
    sends: ClassVar[tuple[str, ...]] = ("model.*",)

    alpha: float = setting(0.1, "step size of the weights λ", at_least=0)

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Balanced(model, Cells(problem).groups)

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Balanced)
        return module.model

    def _outputs(self, parameters: Tree, batch: Batch, view: View) -> Tensor:
        """What the network says that a client trains."""
        return view.forward(parameters, batch["inputs"])

    def phases(self, problem: Problem) -> list[Phase]:
        cells = Cells(problem)

        def before(parameters: Tree, everything: Batch, view: View) -> Tree:
            counts = cells.counts(everything)
            start = counts / counts.sum(dim=0).clamp(min=1)
            new = parameters["cells"].sum() == 0
            balance = torch.where(new, start, parameters["balance"])
            return kept(counts, balance)

        def kept(counts: Tensor, balance: Tensor) -> Tree:
            total = (counts * sample_weights(balance, counts)).sum()
            return {"cells": counts, "balance": balance, "total": total}

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            counts = parameters["cells"]
            weights = cells.pick(sample_weights(parameters["balance"], counts), batch)
            outputs = self._outputs(parameters, batch, view)
            entropy = cross_entropy(outputs, batch["label"])
            # what the sum over all samples is in the mean, and so of the order of one
            return counts.sum() * (weights * entropy).mean()

        def after_pass(parameters: Tree, everything: Batch, view: View) -> Tree:
            outputs = self._outputs(parameters, everything, view)
            losses = cells.sums(cross_entropy(outputs, everything["label"]), everything)
            counts, before = parameters["cells"], parameters["balance"]
            return kept(counts, rebalanced(before, losses, counts, view.passes, self.alpha))

        return [Phase(before=before, loss=loss, after_pass=after_pass)]
