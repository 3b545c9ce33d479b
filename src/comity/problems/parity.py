"""Losses and scores of PraFFL's problems: accuracy, and how far yeses depend on an attribute."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from comity.core.phases import Batch

FairLoss = Literal["printed", "cov2"]


def parity_losses(outputs: Tensor, batch: Batch, column: str, kind: FairLoss) -> Tensor:
    """Return cross entropy, and how far the logits depend on the attribute a (taken as a number).

    As printed: (a − mean a)² (logit − mean logit)², averaged and summed over both logits. It is a
    mean of squares, so it is not zero where attribute and logit are independent. ``cov2`` is the
    square of the mean of (a − mean a)(logit − mean logit) instead.

    Args:
        outputs: Logits of no and yes, one row per sample.
        batch: The samples.
        column: Column of the batch with the attribute's values.
        kind: Fairness loss, ``printed`` or ``cov2``.
    """
    weight = batch["weight"] / batch["weight"].sum()
    entropy = F.cross_entropy(outputs, batch["label"].long(), reduction="none")
    value = batch[column].to(outputs.dtype)
    product = (value - weight @ value).unsqueeze(-1) * (outputs - weight @ outputs)
    unfair = weight @ product.square() if kind == "printed" else (weight @ product).square()
    return torch.stack([weight @ entropy, unfair.sum()])


def parity_scores(outputs: Tensor, batch: Batch, column: str, values: int) -> Tensor:
    """Return accuracy and 1 − D, D = max over values z of |P(yes | z) − P(yes)|.

    A value that is absent counts as one that never gets a yes.

    Args:
        outputs: Logits of no and yes, one row per sample.
        batch: The samples.
        column: Column of the batch with the attribute's values.
        values: Number of the attribute's values.
    """
    weight = batch["weight"]
    yes = (outputs[:, 1] > outputs[:, 0]).to(weight.dtype)
    right = (yes == batch["label"]).to(weight.dtype)
    member = (batch[column].unsqueeze(-1) == torch.arange(values)) * weight[:, None]
    rate = (yes @ member) / member.sum(dim=0).clamp(min=1)
    distance = (rate - weight @ yes / weight.sum()).abs().amax()
    return torch.stack([weight @ right / weight.sum(), 1 - distance])


def commonest(batch: Batch) -> Tensor:
    """Return the logits of the classifier that always gives a client's commonest answer."""
    yes = batch["label"].mean()
    return torch.stack([1 - yes, yes])
