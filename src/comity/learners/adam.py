"""Adam (Kingma and Ba, 2015) for all clients of a stack at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from comity.core.internals import fused_adam

_SMALLEST = 1e-30
_INTERVAL = 100


class Adam:
    """Optimiser that steps stacked tensors in place, each client as with an optimiser of its own.

    First moments below 1e-30 become zero every hundred steps of a client. They move no weight, but
    those of units that get no gradient any more would fall to denormal numbers, with which many
    processors compute some twenty times more slowly.

    Args:
        tensors: Stacked tensors, client first.
        first: First moments, one stacked tensor per tensor.
        second: Second moments, one stacked tensor per tensor.
        weight_decay: Factor of the tensor that is added to its gradient.
    """

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
    def _separate(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Tensors and moments client by client, for steps in which the counts differ."""
        tensors, first, second = self._stacked
        return _unstacked(tensors), _unstacked(first), _unstacked(second)

    @torch.no_grad()
    def step(self, grads: Sequence[Tensor], counts: Tensor, rate: float) -> None:
        """Take one step with every client; where all counts agree, as one operation.

        Args:
            grads: Stacked gradients, one per tensor.
            counts: Number of steps that each client has taken before.
            rate: Step size.
        """
        # the fused kernel goes through memory in its order, whatever the strides are
        grads = [grad.contiguous() for grad in grads]
        together = bool((counts == counts[0]).all())
        tensors, first, second = self._stacked if together else self._separate
        steps = counts + 1
        fused_adam(
            tensors,
            grads if together else _unstacked(grads),
            first,
            second,
            [steps[0]] * len(grads) if together else [*steps.unbind()] * len(grads),
            rate=rate,
            weight_decay=self._weight_decay,
        )
        due = steps % _INTERVAL == 0
        if bool(due.any()):
            for moment in self._stacked[1]:
                rows = due.view(-1, *[1] * (moment.dim() - 1))
                moment.masked_fill_((moment.abs() < _SMALLEST) & rows, 0.0)


def adam_step(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    count: Tensor,
    rate: float,
    weight_decay: float = 0.0,
) -> None:
    """Take the step of `Adam` in elementary operations, which a compiler fuses.

    Args:
        tensors: Stacked tensors, changed in place.
        grads: Gradients, one per tensor.
        first: First moments, changed in place.
        second: Second moments, changed in place.
        count: Number of steps that all clients have taken before.
        rate: Step size.
        weight_decay: Factor of the tensor that is added to its gradient.
    """
    one, two = 1 - 0.9 ** (count + 1), 1 - 0.999 ** (count + 1)
    for tensor, grad, m, v in zip(tensors, grads, first, second, strict=True):
        if weight_decay:
            grad = grad + weight_decay * tensor
        m.lerp_(grad, 0.1)
        v.mul_(0.999).addcmul_(grad, grad, value=0.001)
        tensor.sub_(rate * (m / one) / ((v / two).sqrt() + 1e-8))


def _unstacked(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return stacked tensors as one list: the first tensor of each client, then the second, …"""
    return [row for tensor in tensors for row in tensor.unbind(0)]


@torch.no_grad()
def clip(grads: Sequence[Tensor], limit: float) -> None:
    """Scale each client's gradient in place so that its norm is at most ``limit``.

    Args:
        grads: Stacked gradients, client first; the norm is over all tensors of a client.
        limit: The largest norm.
    """
    norms = [torch.linalg.vector_norm(grad.flatten(1), dim=1) for grad in grads]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    if bool((scale == 1.0).all()):
        return
    for grad in grads:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))
