"""Answers of yes or no in the outputs of a network."""

from __future__ import annotations

from torch import Tensor


def logit_of_yes(outputs: Tensor) -> Tensor | None:
    """Return the logit of yes per sample; None if outputs are no answers of yes or no.

    Softmax of two logits is the sigmoid of their difference.

    Args:
        outputs: Outputs of a network, samples first: one logit of yes, or those of no and yes.
    """
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        return outputs[:, 0]
    if outputs.ndim == 2 and outputs.shape[1] == 2:
        return outputs[:, 1] - outputs[:, 0]
    return None
