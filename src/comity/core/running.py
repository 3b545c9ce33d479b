"""Running all models of a fleet at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from comity.core.typing import Tree

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""Layers that keep statistics of batches; those that normalise layers or groups keep none."""
_POINTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU, nn.SiLU, nn.Identity)


class _StackedLinear(torch.autograd.Function):
    """n linear layers at once.

    Autograd's own backward of ``baddbmm`` returns the weight gradient transposed, so that all
    later steps (clipping, Adam) stride through memory: three times slower in all.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        return torch.baddbmm(bias.unsqueeze(1), inputs, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad,) = grads
        inputs, weight = ctx.saved_tensors
        upstream = torch.bmm(grad, weight) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:  # frozen layer: the gradient only passes through
            return upstream, None, None
        return upstream, _outer(grad, inputs), grad.sum(1)


def _outer(grad: Tensor, inputs: Tensor) -> Tensor:
    """Return the weight gradient of a linear layer, grad^T inputs (n, out, in), contiguous.

    With up to three inputs the transposed product has the same bits in a fifth of the time.
    """
    if inputs.shape[2] > 3:
        return torch.bmm(grad.transpose(1, 2), inputs)
    return torch.bmm(inputs.transpose(1, 2), grad).transpose(1, 2).contiguous()


def convolves(module: nn.Module) -> bool:
    """Return whether a network has convolutions: it then runs faster client by client."""
    return any(isinstance(part, _CONVOLUTIONS) for part in module.modules())


def forward(module: nn.Module) -> Callable[[Tree, Tensor], Tensor]:
    """Return a function ``(stacked parameters, inputs (n, batch, ...)) -> (n, batch, ...)``.

    Plain chains of linear and pointwise layers run as batched matrix products. Networks with
    convolutions run client by client, which is faster than one grouped convolution. Any other
    module is mapped over the client axis with ``torch.func``.

    Args:
        module: The architecture; its own parameters are not used.
    """
    if convolves(module):
        return one_by_one(module)
    layers = list(module.named_children())
    if isinstance(module, nn.Sequential) and all(
        isinstance(layer, _POINTWISE) or (isinstance(layer, nn.Linear) and layer.bias is not None)
        for _, layer in layers
    ):
        fresh = {  # layers that may overwrite their inputs, which nobody else needs
            name
            for (_, before), (name, layer) in pairwise(layers)
            if isinstance(before, nn.Linear) and isinstance(layer, nn.ReLU)
        }

        def chain(tensors: Tree, inputs: Tensor) -> Tensor:
            for name, layer in layers:
                if isinstance(layer, nn.Linear):
                    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
                    inputs = _StackedLinear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
                elif name in fresh:
                    inputs = torch.relu_(inputs)
                else:
                    inputs = layer(inputs)
            return inputs

        return chain

    def one(tensors: Tree, inputs: Tensor) -> Tensor:
        outputs: Tensor = functional_call(module, tensors, (inputs,))
        return outputs

    def mapped(tensors: Tree, inputs: Tensor) -> Tensor:
        outputs: Tensor = vmap(one)(tensors, inputs)
        return outputs

    return mapped


def unbound(tensors: Tree) -> list[Tree]:
    """Return stacked tensors client by client.

    ``unbind`` instead of indexing: the backward of an index makes a whole stack of zeros per
    client. A single client's tensors are reshaped, whose backward does not copy the gradients.
    """
    count = len(next(iter(tensors.values())))
    if count == 1:
        return [{name: tensor.squeeze(0) for name, tensor in tensors.items()}]
    parts = {name: tensor.unbind(0) for name, tensor in tensors.items()}
    return [{name: part[row] for name, part in parts.items()} for row in range(count)]


def one_by_one(module: nn.Module) -> Callable[[Tree, Tensor], Tensor]:
    """Return the function of `forward` as a plain loop over the clients, for any module."""
    call = _called(module)

    def looped(tensors: Tree, inputs: Tensor) -> Tensor:
        return stacked([call(model, inputs[row]) for row, model in enumerate(unbound(tensors))])

    return looped


def _called(module: nn.Module) -> Callable[[Tree, Tensor], Tensor]:
    """Return ``functional_call`` of a module, which looks up its tensors only once.

    Layers that share a tensor are left to ``functional_call`` itself, which refuses them.
    """
    if len([*module.parameters()]) < len([*module.named_parameters(remove_duplicate=False)]):
        return lambda tensors, inputs: functional_call(module, tensors, (inputs,))
    places = {
        f"{path}.{name}" if path else name: (values, name)
        for path, part in module.named_modules()
        for values in (part._parameters, part._buffers)
        for name in values
    }

    def call(tensors: Tree, inputs: Tensor) -> Tensor:
        before = [(*places[name], places[name][0][places[name][1]]) for name in tensors]
        try:
            for name, tensor in tensors.items():
                values, key = places[name]
                values[key] = tensor
            outputs: Tensor = module(inputs)
        finally:
            for values, key, tensor in before:
                values[key] = tensor
        return outputs

    return call


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """Return the tensors of some clients as one, client first; that of a single one is reshaped."""
    return torch.stack(list(parts)) if len(parts) > 1 else parts[0].unsqueeze(0)
