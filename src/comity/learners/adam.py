"""Adam (Kingma and Ba, 2015) for all clients of a stack at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor


class Adam:
    """Steps stacked tensors in place, each client as if it had an optimiser of its own."""

    def __init__(
        self,
        tensors: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        weight_decay: float = 0.0,
    ) -> None:
        self._weight_decay = weight_decay
        self._stacked = (tensors, first, second)

    @cached_property
    def _apart(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """All client by client, for when their counts differ."""
        tensors, first, second = self._stacked
        return _apart(tensors), _apart(first), _apart(second)

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], counts: Tensor, rate: float) -> None:
        """``counts`` says how many steps each client has taken before.

        As long as the counts agree, one step serves all.
        """
        # the fused kernel walks through memory, whatever the strides say
        grads = [grad.contiguous() for grad in grads]
        together = bool((counts == counts[0]).all())
        tensors, first, second = self._stacked if together else self._apart
        steps = counts + 1
        torch._fused_adam_(  # what `torch.optim` ends in, without sorting tensors by device
            tensors,
            grads if together else _apart(grads),
            first,
            second,
            [],
            [steps[0]] * len(grads) if together else [*steps.unbind()] * len(grads),
            lr=rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self._weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def adam_step(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    count: Tensor,
    rate: float,
    weight_decay: float = 0.0,
) -> None:
    """The same step from elementary operations, which compiling fuses."""
    one, two = 1 - 0.9 ** (count + 1), 1 - 0.999 ** (count + 1)
    for tensor, grad, m, v in zip(tensors, grads, first, second, strict=True):
        if weight_decay:
            grad = grad + weight_decay * tensor
        m.lerp_(grad, 0.1)
        v.mul_(0.999).addcmul_(grad, grad, value=0.001)
        tensor.sub_(rate * (m / one) / ((v / two).sqrt() + 1e-8))


def _apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Stacked tensors as one list: the first tensor of each client, then the second, …"""
    return [row for tensor in tensors for row in tensor.unbind(0)]


@torch.no_grad()
def clip(grads: Sequence[Tensor], limit: float) -> None:
    """Scale each client's gradient, over all its tensors, to at most ``limit``."""
    norms = [torch.linalg.vector_norm(grad.flatten(1), dim=1) for grad in grads]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    if bool((scale == 1.0).all()):
        return
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
