"""A device beside the CPU, for machines without a GPU: ``torch.device("twin")``.

It computes with the kernels of the CPU, so its results have their bits, but it is as strict as a
GPU: its tensors meet no others in one operation, but for numbers and indices, and become no arrays
unless they are copied to the host. Like Apple's GPUs it has no float64. So a run on this device
that ends with the bits of the CPU proves that what it needed was there, and nowhere else.

Importing this module makes the device known to torch, for the rest of the process.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

try:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
except ImportError:
    pytest.skip("this torch has no devices written in Python", allow_module_level=True)

TWIN = "twin"
_setup_privateuseone_for_python_backend(TWIN)
_DEVICE = torch.device(TWIN, 0)
_INDEXED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
"""Operations that take indices from the host on every device."""


class TwinTensor(Tensor):
    """A tensor of the device, which holds its numbers in a tensor of the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> TwinTensor:
        if held.dtype == torch.float64:
            raise TypeError("this device has no float64")
        tensor = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=_DEVICE,
        )
        tensor.held = held
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation, types, arguments=(), keywords=None):
        return _execute(operation, arguments, keywords or {})

    def numpy(self, *, force: bool = False):
        if not force:
            raise TypeError("a tensor of this device is no array; copy it to the host first")
        return self.held.numpy(force=True)

    def tolist(self):
        return self.held.tolist()


def _held(value: Any) -> Any:
    return value.held if isinstance(value, TwinTensor) else value


def _twin(value: Any) -> Any:
    return TwinTensor(value) if type(value) is Tensor else value


def _execute(operation: Any, arguments: Any, keywords: dict[str, Any]) -> Any:
    """Execute an operation with tensors of the device among its arguments, or that makes one."""
    name = operation._schema.name
    if name == "aten::copy_":  # between devices
        _held(arguments[0]).copy_(_held(arguments[1]))
        return arguments[0]
    tensors = [leaf for leaf in tree_leaves((arguments, keywords)) if isinstance(leaf, Tensor)]
    target = keywords.get("device") or (tensors[0].device if tensors else _DEVICE)
    if "device" in keywords:
        keywords = {**keywords, "device": torch.device("cpu")}
    if name != "aten::_to_copy":
        for tensor in tensors:
            if tensor.device.type != TWIN and tensor.dim() and name not in _INDEXED:
                raise RuntimeError(f"{name}: one tensor is on {tensor.device}, another on {TWIN}")
            target = tensor.device if tensor.device.type == TWIN else target
    kernel = _KERNELS.get(name, operation)
    result = kernel(*tree_map(_held, arguments), **tree_map(_held, keywords))
    if torch.device(target).type != TWIN:
        return result
    return return_and_correct_aliasing(operation, arguments, keywords, tree_map(_twin, result))


def _lstm_cell(inputs, hidden, memory, input_bias=None, hidden_bias=None):
    """Return hidden state, memory and gates of an LSTM's cell; CPUs have no such operation."""
    gates = inputs + hidden
    if input_bias is not None:
        gates = gates + input_bias + hidden_bias
    enter, keep, new, leave = gates.chunk(4, 1)
    enter, keep, new, leave = enter.sigmoid(), keep.sigmoid(), new.tanh(), leave.sigmoid()
    after = keep * memory + enter * new
    return leave * after.tanh(), after, torch.cat([enter, keep, new, leave], 1)


def _lstm_cell_backward(grad_hidden, grad_after, memory, after, gates, has_bias):
    """Return gradients of the gates' inputs, of the memory before, and of the biases."""
    enter, keep, new, leave = gates.chunk(4, 1)
    nothing, tanh = torch.zeros_like(after), after.tanh()
    grad_hidden = nothing if grad_hidden is None else grad_hidden
    grad = grad_hidden * leave * (1 - tanh**2)
    grad = grad if grad_after is None else grad + grad_after
    parts = [
        grad * new * enter * (1 - enter),
        grad * memory * keep * (1 - keep),
        grad * enter * (1 - new**2),
        grad_hidden * tanh * leave * (1 - leave),
    ]
    inputs = torch.cat(parts, 1)
    return inputs, grad * keep, inputs.sum(0) if has_bias else None


_KERNELS = {
    "aten::_thnn_fused_lstm_cell": _lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
}
"""Operations of GPUs that CPUs lack."""


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _held(target).copy_(_held(source))
    return target


def _empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None) -> Tensor:
    return TwinTensor(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


_every = torch.library.Library("_", "IMPL")
_every.fallback(
    lambda operation, *values, **named: _execute(operation, values, named), "PrivateUse1"
)
_aten = torch.library.Library("aten", "IMPL")
_aten.impl("_copy_from", _copy_from, "PrivateUse1")  # these two by themselves: for torch.tensor(…)
_aten.impl("empty_strided", _empty_strided, "PrivateUse1")


class HostWork(TorchDispatchMode):
    """Notes where Comity makes tensors of the CPU, whatever the device of the run.

    Single numbers do not count, nor do arrays that become tensors only to be copied to the device.

    Args:
        allowed: Functions, as ``path.py:name`` inside the package, that work on the host.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        super().__init__()
        self._allowed = frozenset(allowed)
        self.places: set[str] = set()
        """Other functions that made tensors of the CPU, and by which operation."""
        self.used: set[str] = set()
        """Those of the allowed functions that made some."""

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        result = operation(*arguments, **(keywords or {}))
        if operation._schema.name not in _ALIASES and any(map(_on_host, tree_leaves(result))):
            callers = list(_callers())
            allowed = self._allowed.intersection(callers)
            self.used |= allowed
            if not allowed:
                self.places.add(f"{callers[0] if callers else 'outside'}: {operation}")
        return result


_ALIASES = ("aten::lift_fresh", "aten::detach", "aten::alias")
"""Operations that compute nothing: the same numbers as another tensor."""


def _on_host(value: Any) -> bool:
    return isinstance(value, Tensor) and value.device.type == "cpu" and value.dim() > 0


def _callers() -> Iterator[str]:
    """Yield Comity's functions on the stack, innermost first."""
    frame = sys._getframe(2)
    while frame is not None:
        _, inside, path = frame.f_code.co_filename.rpartition("/comity/")
        if inside:
            yield f"{path}:{frame.f_code.co_name}"
        frame = frame.f_back
