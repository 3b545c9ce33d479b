"""Steps as compiled programs, and whether they can be compiled on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeAlias

from torch import Tensor

from comity.core.internals import compiled

Arguments: TypeAlias = tuple[Any, ...]
"""Tensors, dicts of tensors, and tuples (also named ones) of these."""
Step = Callable[[Any, Any], None]
"""A function of fixed and of changing arguments, whose tensors it changes in place."""


def compiler() -> str | None:
    """Return the path of the C++ compiler that programs are made with, if there is one."""
    names = (os.environ.get("CXX", "g++"), "clang++", "c++")
    return next((path for name in names if (path := shutil.which(name))), None)


class Programs:
    """Functions that change tensors in place, each compiled once per set of shapes.

    `torch.compile` would check before every call whether some thousand Python objects are
    unchanged, which takes as long as everything in a step that is not a matrix product. Here a
    function is traced down to its tensor operations; whatever else it uses must not change.
    """

    def __init__(self) -> None:
        self._programs: dict[Hashable, Callable[..., object]] = {}

    def bind(
        self, name: Hashable, function: Step, fixed: Arguments, changing: Arguments
    ) -> Callable[[Arguments], None]:
        """Return ``function(fixed, changing)`` as a program of the changing arguments.

        Args:
            name: Identifies the function and everything that it uses beside its arguments.
            function: The function to compile.
            fixed: Arguments that are the same tensors in every call.
            changing: An example of the arguments that are given anew in every call.
        """
        held = _leaves(fixed)
        shapes = tuple((leaf.shape, leaf.stride()) for leaf in held + _leaves(changing))
        if (name, shapes) not in self._programs:
            program = _compile(
                lambda *tensors: function(*_rebuilt((fixed, changing), iter(tensors))),
                held + _leaves(changing),
            )
            self._programs[name, shapes] = program
        program = self._programs[name, shapes]

        def run(changing: Arguments) -> None:
            program(*held, *_leaves(changing))

        return run


def _leaves(arguments: Arguments) -> list[Tensor]:
    """Return all tensors in their order; torch's function for any tree is ten times slower."""
    leaves: list[Tensor] = []
    for argument in arguments:
        if isinstance(argument, dict):
            leaves += argument.values()
        elif isinstance(argument, tuple):
            leaves += _leaves(argument)
        else:
            leaves.append(argument)
    return leaves


def _rebuilt(arguments: Any, tensors: Iterator[Tensor]) -> Any:
    """Return arguments of the same form with other tensors, in the order of `_leaves`."""
    if isinstance(arguments, dict):
        return {name: next(tensors) for name in arguments}
    if isinstance(arguments, tuple):
        parts = [_rebuilt(argument, tensors) for argument in arguments]
        return type(arguments)(*parts) if hasattr(arguments, "_fields") else tuple(parts)
    return next(tensors)


def _compile(function: Callable[..., None], arguments: list[Tensor]) -> Callable[..., object]:
    """Return a function as a compiled program of tensors like the given ones."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def in_place(*tensors: Tensor) -> tuple[()]:
        function(*tensors)
        return ()

    graph = make_fx(in_place)(*(tensor.clone() for tensor in arguments))
    return compiled(graph, arguments)
