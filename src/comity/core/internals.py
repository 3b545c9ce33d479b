"""The functions of torch that are used here and not public; public ones where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.optim.adam import adam

_FUSED_ADAM = getattr(torch, "_fused_adam_", None)


def fused_adam(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    first: Sequence[Tensor],
    second: Sequence[Tensor],
    steps: Sequence[Tensor],
    *,
    rate: float,
    weight_decay: float,
) -> None:
    """Take a step of Adam as one operation; `torch.optim` ends in it, after sorting by device.

    Args:
        tensors: What is stepped, in place.
        grads: Gradients, one per tensor.
        first: First moments, changed in place.
        second: Second moments, changed in place.
        steps: Numbers of steps, this one included, one per tensor.
        rate: Step size.
        weight_decay: Factor of the tensor that is added to its gradient.
    """
    lists = [*tensors], [*grads], [*first], [*second]
    settings: dict[str, Any] = {
        **{"lr": rate, "beta1": 0.9, "beta2": 0.999, "weight_decay": weight_decay, "eps": 1e-8},
        **{"amsgrad": False, "maximize": False},
    }
    if _FUSED_ADAM is not None:
        _FUSED_ADAM(*lists, [], [*steps], **settings)
    else:  # counts the step itself
        counts = [step - 1 for step in steps]
        adam(*lists, max_exp_avg_sqs=[], state_steps=counts, foreach=False, fused=True, **settings)


def compiled(graph: fx.GraphModule, arguments: Sequence[Tensor]) -> Callable[..., object]:
    """Return a traced function as a program that checks nothing before it runs.

    The public `torch.compile` gives the same program, behind checks.

    Args:
        graph: The function.
        arguments: Tensors like those that it will get.
    """
    import torch._inductor  # takes a second

    if hasattr(torch._inductor, "compile"):
        program: Callable[..., object] = torch._inductor.compile(graph, [*arguments])
    else:
        program = torch.compile(graph, dynamic=False)
    return program
