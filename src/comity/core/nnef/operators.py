"""What each operator of PyTorch becomes in NNEF.

Every function of the table writes one call. It takes the graph, the shape of the result and the
arguments as PyTorch has them, with a `Value` for each tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from comity.core.nnef.text import Graph, Shape, Value


class UnknownOperatorError(Exception):
    """An operator, or a use of it, that has no counterpart in the table; the text names it."""


def name_of(target: Any) -> str:
    """Return the name of an operator of PyTorch without its overload: ``conv2d``."""
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


def ranked(graph: Graph, value: Value, rank: int) -> Value:
    """Return a value written with this number of axes, no fewer than it has in PyTorch."""
    if len(value.written) == rank:
        return value
    goal = [1] * (rank - len(value.shape)) + [*value.shape]
    return graph.write("reshape", value, result=value.shape, rank=rank, shape=goal)


# -- shapes --------------------------------------------------------------------------------


def _same(graph: Graph, shape: Shape, value: Value, *rest: Any, **options: Any) -> Value:
    return value


def _cast(graph: Graph, shape: Shape, value: Value, *rest: Any, **options: Any) -> Value:
    types = [item for item in (*rest, *options.values()) if isinstance(item, torch.dtype)]
    if types not in ([], [torch.float32]):
        raise UnknownOperatorError(f"to with {types[0]}")
    return value


def _reshape(graph: Graph, shape: Shape, value: Value, *rest: Any) -> Value:
    return graph.write("reshape", value, result=shape, shape=list(shape))


def _expand(graph: Graph, shape: Shape, value: Value, *rest: Any, **options: Any) -> Value:
    if shape == value.shape:
        return value
    value = ranked(graph, value, len(shape))
    repeats = [new // old for new, old in zip(shape, value.written, strict=True)]
    return graph.write("tile", value, result=shape, repeats=repeats)


def _permute(graph: Graph, shape: Shape, value: Value, dims: Sequence[int]) -> Value:
    axes = [*range(value.extra), *map(value.axis, dims)]
    return graph.write("transpose", value, result=shape, rank=len(axes), axes=axes)


def _transpose(graph: Graph, shape: Shape, value: Value, first: int, second: int) -> Value:
    dims = list(range(len(shape)))
    dims[first], dims[second] = dims[second], dims[first]
    return _permute(graph, shape, value, dims)


def _cat(graph: Graph, shape: Shape, values: Sequence[Value], dim: int = 0) -> Value:
    parts = [ranked(graph, value, len(shape)) for value in values]
    return graph.write("concat", parts, result=shape, axis=dim % len(shape))


def _stack(graph: Graph, shape: Shape, values: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % len(shape)
    layer = (*shape[:axis], 1, *shape[axis + 1 :])
    return _cat(graph, shape, [_reshape(graph, layer, value) for value in values], axis)


def _unbind(graph: Graph, shape: Shape, value: Value, dim: int = 0) -> list[Value]:
    axis = dim % len(value.shape)
    layer = (*value.shape[:axis], *value.shape[axis + 1 :])
    parts = graph.split(value, value.axis(axis), value.shape[axis])
    return [_reshape(graph, layer, part) for part in parts]


def _getitem(graph: Graph, shape: Shape, values: Sequence[Value], index: int) -> Value:
    return values[index]


# -- numbers -------------------------------------------------------------------------------


def _each(graph: Graph, operator: str, shape: Shape, *operands: Value | float) -> Value:
    """Write an operator that works entry by entry; tensors are broadcast as in PyTorch."""
    rank = max(len(value.written) for value in operands if isinstance(value, Value))
    aligned = [
        ranked(graph, value, rank) if isinstance(value, Value) else value for value in operands
    ]
    return graph.write(operator, *aligned, result=shape, rank=rank)


def _unary(operator: str) -> Callable[..., Value]:
    def write(graph: Graph, shape: Shape, value: Value) -> Value:
        return _each(graph, operator, shape, value)

    return write


def _binary(operator: str, name: str) -> Callable[..., Value]:
    def write(
        graph: Graph, shape: Shape, one: Value | float, other: Value | float, **options: Any
    ) -> Value:
        if options:  # such as alpha, which scales the second operand
            raise UnknownOperatorError(f"{name} with {', '.join(options)}")
        return _each(graph, operator, shape, one, other)

    return write


def _rsub(graph: Graph, shape: Shape, one: Value, other: Value | float) -> Value:
    return _each(graph, "sub", shape, other, one)


def _silu(graph: Graph, shape: Shape, value: Value) -> Value:
    return _each(graph, "mul", shape, value, _each(graph, "sigmoid", shape, value))


def _clamp(
    graph: Graph, shape: Shape, value: Value, least: float | None = None, most: float | None = None
) -> Value:
    if least is not None:
        value = _each(graph, "max", shape, value, least)
    return value if most is None else _each(graph, "min", shape, value, most)


def _where(graph: Graph, shape: Shape, condition: Value, yes: Value, no: Value) -> Value:
    return _each(graph, "select", shape, condition, yes, no)


def _softmax(graph: Graph, shape: Shape, value: Value, dim: int, *rest: Any) -> Value:
    if dim % len(shape) != len(shape) - 1:  # ONNX before version 13 takes all axes from dim on
        dims = list(range(len(shape)))
        dims[dim], dims[-1] = dims[-1], dims[dim]
        turned = tuple(shape[axis] for axis in dims)
        last = _softmax(graph, turned, _permute(graph, turned, value, dims), -1)
        return _permute(graph, shape, last, dims)
    rank = len(value.written)
    return graph.write("softmax", value, result=shape, rank=rank, axes=[rank - 1])


def _reduced(operator: str) -> Callable[..., Value]:
    def write(
        graph: Graph,
        shape: Shape,
        value: Value,
        dims: Sequence[int] | None = None,
        keep: bool = False,
        **options: Any,
    ) -> Value:
        chosen = [dim % len(value.shape) for dim in (dims or range(len(value.shape)))]
        kept = tuple(1 if dim in chosen else size for dim, size in enumerate(value.shape))
        axes, rank = sorted(map(value.axis, chosen)), len(value.written)
        if kept == (1,) * (len(kept) - len(shape)) + shape:  # only ones in front go away
            return graph.write(operator, value, result=shape, rank=rank, axes=axes)
        result = graph.write(operator, value, result=kept, rank=rank, axes=axes)
        return _reshape(graph, shape, result)

    return write


# -- layers --------------------------------------------------------------------------------


def _matmul(graph: Graph, shape: Shape, one: Value, other: Value) -> Value:
    if min(len(one.shape), len(other.shape)) < 2:
        raise UnknownOperatorError("matmul with a vector")
    rank = max(len(one.written), len(other.written))
    pair = ranked(graph, one, rank), ranked(graph, other, rank)
    return graph.write("matmul", *pair, result=shape, rank=rank)


def _linear(
    graph: Graph, shape: Shape, value: Value, weight: Value, bias: Value | None = None
) -> Value:
    if len(value.written) != 2:  # in NNEF a layer takes rows only
        count = prod(value.shape[:-1])
        rows = _reshape(graph, (count, value.shape[-1]), value)
        return _reshape(graph, shape, _linear(graph, (count, shape[-1]), rows, weight, bias))
    if bias is None:
        return graph.write("matmul", value, weight, result=shape, rank=2, transposeB=True)
    return graph.write("linear", value, weight, ranked(graph, bias, 2), result=shape, rank=2)


def _conv(
    graph: Graph,
    shape: Shape,
    value: Value,
    weight: Value,
    bias: Value | None = None,
    *window: Any,
) -> Value:
    axes = len(shape) - 2
    usual: tuple[Any, ...] = ((1,), (0,), (1,), 1)
    stride, padding, dilation, groups = (*window, *usual[len(window) :])
    return graph.write(
        *("conv", value, weight, 0.0 if bias is None else ranked(graph, bias, 2)),
        result=shape,
        stride=_spread(stride, axes),
        padding=[(size, size) for size in _spread(padding, axes)],
        dilation=_spread(dilation, axes),
        groups=groups,
        border="constant",
    )


def _max_pool(
    graph: Graph,
    shape: Shape,
    value: Value,
    size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Value:
    if ceil_mode:
        raise UnknownOperatorError("max_pool2d with ceil_mode")
    axes = len(shape) - 2
    return graph.write(
        *("max_pool", value),
        result=shape,
        size=[1, 1, *_spread(size, axes)],
        stride=[1, 1, *_spread(stride or size, axes)],
        padding=[(0, 0), (0, 0), *((size, size) for size in _spread(padding, axes))],
        dilation=[1, 1, *_spread(dilation, axes)],
        border="ignore",
    )


def _batch_norm(
    graph: Graph,
    shape: Shape,
    value: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    *rest: Any,
) -> list[Value]:
    variance, _, epsilon = rest
    if weight is None or bias is None:
        raise UnknownOperatorError("batch_norm without weights")
    operands = value, *(ranked(graph, row, 2) for row in (mean, variance, bias, weight))
    result = graph.write(
        "batch_normalization", *operands, result=value.shape, rank=len(shape), epsilon=epsilon
    )
    return [result]  # and nothing that only training needs


def _layer_norm(
    graph: Graph,
    shape: Shape,
    value: Value,
    sizes: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    epsilon: float = 1e-5,
    *rest: Any,
) -> Value:
    dims = list(range(len(shape) - len(sizes), len(shape)))
    some = (*shape[: -len(sizes)], *[1] * len(sizes))
    mean = _reduced("mean_reduce")
    centred = _each(graph, "sub", shape, value, mean(graph, some, value, dims, True))
    square = _each(graph, "mul", shape, centred, centred)
    variance = _each(graph, "add", some, mean(graph, some, square, dims, True), epsilon)
    result = _each(graph, "div", shape, centred, _each(graph, "sqrt", some, variance))
    if weight is not None:
        result = _each(graph, "mul", shape, result, weight)
    return result if bias is None else _each(graph, "add", shape, result, bias)


def _spread(sizes: Sequence[int], axes: int) -> list[int]:
    """Return one size per axis; a single one counts for all."""
    return list(sizes) * (axes if len(sizes) == 1 else 1)


_SAME = ("alias", "clone", "contiguous", "detach", "dropout", "lift_fresh_copy")
_RESHAPES = ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
_CASTS = ("to", "_to_copy")
SHAPING = frozenset((*_SAME, *_RESHAPES, *_CASTS, "expand", "permute", "transpose"))
"""Operators that only move numbers, or cast them."""

OPERATORS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_RESHAPES, _reshape),
    **dict.fromkeys(_CASTS, _cast),
    **{name: _unary(name) for name in ("relu", "tanh", "sigmoid", "exp", "log", "sqrt", "neg")},
    **{name: _binary(name, name) for name in ("add", "sub", "mul", "div", "gt", "lt", "ge", "le")},
    **dict.fromkeys(("matmul", "mm", "bmm"), _matmul),
    **dict.fromkeys(("conv1d", "conv2d"), _conv),
    "expand": _expand,
    "permute": _permute,
    "transpose": _transpose,
    "cat": _cat,
    "stack": _stack,
    "unbind": _unbind,
    "getitem": _getitem,
    "rsub": _rsub,
    "silu": _silu,
    "clamp": _clamp,
    "where": _where,
    "softmax": _softmax,
    "sum": _reduced("sum_reduce"),
    "mean": _reduced("mean_reduce"),
    "linear": _linear,
    "max_pool2d": _max_pool,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "layer_norm": _layer_norm,
}
"""What writes each operator, by its name in PyTorch."""
