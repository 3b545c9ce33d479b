"""Losses and scores of PraFFL's problems: accuracy, and how far yeses depend on the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from comity.core.phases import Batch

FairLoss = Literal["printed", "cov2"]


@dataclass(frozen=True)
class Losses:
    """Cross entropy, and how far the logits depend on the group (a number, even if it is a code).

    As printed: (a − mean a)² (logit − mean logit)², averaged and summed over both logits. It is a
    mean of squares, so it is not zero where group and logit are independent. ``cov2`` is the square
    of the mean of (a − mean a)(logit − mean logit) instead.
    """

    column: str
    kind: FairLoss

    def __call__(self, outputs: Tensor, batch: Batch) -> Tensor:
        weight = batch["weight"] / batch["weight"].sum()
        entropy = F.cross_entropy(outputs, batch["label"].long(), reduction="none")
        group = batch[self.column].to(outputs.dtype)
        away = (group - weight @ group).unsqueeze(-1) * (outputs - weight @ outputs)
        unfair = weight @ away.square() if self.kind == "printed" else (weight @ away).square()
        return torch.stack([weight @ entropy, unfair.sum()])


@dataclass(frozen=True)
class Scores:
    """Accuracy, and 1 − D; a group that is not there counts as one that never gets a yes."""

    column: str
    groups: int

    def __call__(self, outputs: Tensor, batch: Batch) -> Tensor:
        weight = batch["weight"]
        yes = (outputs[:, 1] > outputs[:, 0]).to(weight.dtype)
        right = (yes == batch["label"]).to(weight.dtype)
        member = (batch[self.column].unsqueeze(-1) == torch.arange(self.groups)) * weight[:, None]
        rate = (yes @ member) / member.sum(dim=0).clamp(min=1)
        apart = (rate - weight @ yes / weight.sum()).abs().amax()
        return torch.stack([weight @ right / weight.sum(), 1 - apart])


def commonest(batch: Batch) -> Tensor:
    """The logits of the classifier that always gives a client's commonest answer."""
    yes = batch["label"].mean()
    return torch.stack([1 - yes, yes])
