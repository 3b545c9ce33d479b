"""FairBatch (Roh et al., 2021): the base of fair algorithms, which weigh samples by cell.

A *cell* (y, z) holds a client's samples with label y and attribute value z; m_yz is their number,
l_yz the sum of their cross entropies.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comity.algorithms.base import Algorithm, Need, Round
from comity.core.mixing import Mixing
from comity.core.phases import Batch, Phase, View
from comity.core.typing import FloatArray, Tree
from comity.problems import DataProblem, Problem
from comity.settings import setting

PUBLIC_PASSES = 30
"""Local passes over which the public code sums the weights of samples for its average."""


def cross_entropy(outputs: Tensor, label: Tensor) -> Tensor:
    """Return the cross entropy of each sample, from one logit or from one per class."""
    if outputs.shape[-1] == 1:
        return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), label, reduction="none")
    return F.cross_entropy(outputs, label.long(), reduction="none")


def predicts_yes(outputs: Tensor) -> Tensor:
    """Return 1 for each sample whose prediction is the positive label, else 0."""
    margin = outputs[..., 0] if outputs.shape[-1] == 1 else outputs[..., 1] - outputs[..., 0]
    return (margin > 0).to(outputs.dtype)


class Cells:
    """The cells of a problem with one attribute, ``groups`` being the number of its values."""

    def __init__(self, problem: Problem) -> None:
        assert isinstance(problem, DataProblem)
        ((self.column, self.groups),) = problem.attributes.items()

    def members(self, batch: Batch) -> Tensor:
        """Return the weight of each sample under each attribute value (samples x groups)."""
        member = batch[self.column].unsqueeze(-1) == torch.arange(self.groups)
        return member * batch["weight"].unsqueeze(-1)

    def sums(self, values: Tensor, batch: Batch) -> Tensor:
        """Return values of samples, summed by cell (2 x groups)."""
        label = batch["label"].unsqueeze(-1) == torch.arange(2)
        return torch.einsum("iy,iz,i->yz", label.to(values.dtype), self.members(batch), values)

    def counts(self, batch: Batch) -> Tensor:
        """Return m_yz (2 x groups)."""
        return self.sums(torch.ones_like(batch["weight"]), batch)

    def pick(self, table: Tensor, batch: Batch) -> Tensor:
        """Return the entry of a table (2 x groups) for each sample."""
        return table[batch["label"].long(), batch[self.column]]


class Balanced(nn.Module):
    """A network with the weights that its client gives to cells."""

    def __init__(self, model: nn.Module, groups: int) -> None:
        super().__init__()
        self.model = model
        self.balance = nn.Parameter(torch.zeros(2, groups), requires_grad=False)
        """λ(y, z), the weight of label y under attribute value z."""
        self.cells = nn.Parameter(torch.zeros(2, groups), requires_grad=False)
        """m_yz; all zero before the first phase."""
        self.total = nn.Parameter(torch.zeros(()), requires_grad=False)
        """The sum of all samples' weights."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.model(inputs)
        return outputs


def sample_weights(balance: Tensor, counts: Tensor) -> Tensor:
    """Return v = λ(y, z) / m_z of a sample in each cell."""
    return balance / counts.sum(dim=0).clamp(min=1)


def rebalanced(
    balance: Tensor, losses: Tensor, cells: Tensor, passes: Tensor, alpha: float
) -> Tensor:
    """Return λ after a pass: more weight to a label where its losses are higher.

    With g_z = (l_0z − l_1z) / m_z, for two values of the attribute λ(0,1) takes a step of
    α / passes in the direction of g_1 − g_0, and λ(0,0) the opposite one; for more, λ(0,z) moves by
    √α (g_z − g_0) and λ(0,0) by minus the sum of these. λ(1,z) = 1 − λ(0,z). This levels the rates
    of positive predictions, as FedFB's step does; the opposite signs increase their differences.

    Args:
        balance: λ before (2 x groups).
        losses: l_yz after the pass.
        cells: m_yz.
        passes: number of passes so far.
        alpha: α.
    """
    g = (losses[0] - losses[1]) / cells.sum(dim=0).clamp(min=1)
    behind = g[1:] - g[0]
    if len(g) == 2:
        step = alpha / passes * torch.where(behind > 0, 1.0, -1.0)
    else:
        step = alpha**0.5 * behind
    first = balance[0] + torch.cat([-step.sum(dim=0, keepdim=True), step])
    first = first.clamp(0.0, 1.0)
    return torch.stack([first, 1 - first])


def rebalanced_as_public(
    balance: Tensor, losses: Tensor, cells: Tensor, passes: Tensor, alpha: float, steps: int = 4
) -> Tensor:
    """Return λ after a pass as the public code moves it, for two values of the attribute.

    With u_y = l_y0 / m_0 − l_y1 / m_1 and a = α / passes: where u_0 > u_1, λ(0,0) −= a, λ(0,1) += a
    and λ(1,z) = 1 − λ(0,z): signs opposite to those that level; elsewhere λ(0,0) += a, λ(1,0) −= a
    and λ(y,1) = 1 − λ(y,0). All are clipped to [0, 1].

    Args:
        balance: λ before (2 x 2).
        losses: l_yz after the pass.
        cells: m_yz.
        passes: number of passes so far.
        alpha: α.
        steps: 4: a step after the division of each l_yz by m_z, in the order (0,0), (0,1), (1,0),
            (1,1), so that in the first three some losses are not divided yet; 1: one step in the
            end.
    """
    step = alpha / passes
    members = cells.sum(dim=0).clamp(min=1)
    for number in range(4 - steps, 4):
        divided = torch.arange(4).reshape(2, 2) <= number
        u = torch.where(divided, losses / members, losses)
        u = u[:, 0] - u[:, 1]
        apart = torch.stack([balance[0, 0] - step, balance[0, 1] + step]).clamp(0.0, 1.0)
        other = torch.stack([balance[0, 0] + step, balance[1, 0] - step]).clamp(0.0, 1.0)
        balance = torch.where(
            u[0] > u[1],
            torch.stack([apart, 1 - apart]),
            torch.stack([other, 1 - other], dim=1),
        )
    return balance


def public_average(weights: FloatArray, round: Round, divisor: float | None = None) -> Mixing:
    """Return θ ← (θ_0 + Σ_{k ≥ 1} w_k θ_k) / Σ_k w_k, the average of the public code.

    It does not weigh the first participant, so the coefficients do not sum to one.

    Args:
        weights: w, one per participant.
        round: what the server received.
        divisor: in place of Σ_k w_k.
    """
    coefficients = np.concatenate([[1.0], weights[1:]]) / (divisor or weights.sum())
    base = round.start.mix(coefficients[None])
    return Mixing.step(coefficients, receivers=round.clients, base=base)


class FairBatch(Algorithm):
    """Clients train on Σ_i v_i CE_i, v_i = λ(y_i, z_i) / m_{z_i}, and move λ after every pass."""

    personal: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset({"attribute", "losses"})
    sends: ClassVar[tuple[str, ...]] = ("model.*",)

    public_steps: ClassVar[int] = 4
    """Steps of λ per pass under ``balancing = public``."""

    alpha: float = setting(0.1, "step size of the weights λ", at_least=0)
    balancing: Literal["levelling", "public"] = setting(
        "levelling", "λ levels the values' rates; public: the public code's step, for two values"
    )

    def build(self, model: nn.Module, problem: Problem) -> nn.Module:
        return Balanced(model, Cells(problem).groups)

    def predictor(self, module: nn.Module, preference: FloatArray) -> nn.Module:
        assert isinstance(module, Balanced)
        return module.model

    def _outputs(self, parameters: Tree, batch: Batch, view: View) -> Tensor:
        """Return the outputs of the network that a client trains."""
        return view.forward(parameters, batch["inputs"])

    def phases(self, problem: Problem) -> list[Phase]:
        cells = Cells(problem)

        def before(parameters: Tree, everything: Batch, view: View) -> Tree:
            counts = cells.counts(everything)
            start = counts / counts.sum(dim=0).clamp(min=1)
            first = parameters["cells"].sum() == 0
            balance = torch.where(first, start, parameters["balance"])
            return tensors(counts, balance)

        def tensors(counts: Tensor, balance: Tensor) -> Tree:
            total = (counts * sample_weights(balance, counts)).sum()
            return {"cells": counts, "balance": balance, "total": total}

        def loss(parameters: Tree, batch: Batch, view: View) -> Tensor:
            counts = parameters["cells"]
            weights = cells.pick(sample_weights(parameters["balance"], counts), batch)
            outputs = self._outputs(parameters, batch, view)
            entropy = cross_entropy(outputs, batch["label"])
            # an unbiased estimate of the sum over all samples, which is of the order of one
            return counts.sum() * (weights * entropy).mean()

        def after_pass(parameters: Tree, everything: Batch, view: View) -> Tree:
            outputs = self._outputs(parameters, everything, view)
            losses = cells.sums(cross_entropy(outputs, everything["label"]), everything)
            counts, before = parameters["cells"], parameters["balance"]
            values = (before, losses, counts, view.passes, self.alpha)
            if self.balancing == "public" and cells.groups == 2:
                return tensors(counts, rebalanced_as_public(*values, steps=self.public_steps))
            return tensors(counts, rebalanced(*values))

        return [Phase(before=before, loss=loss, after_pass=after_pass)]
