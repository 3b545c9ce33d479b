"""Steps as compiled programs, and whether they can be compiled here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Hashable

from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from comity.core.typing import Tree

Trees = tuple[Tree | Tensor, ...]


def compiler() -> str | None:
    """The C++ compiler that programs are made with here."""
    names = (os.environ.get("CXX", "g++"), "clang++", "c++")
    return next((found for name in names if (found := shutil.which(name))), None)


class Programs:
    """Functions of tensors, which they change in place, each compiled for the shapes it meets.

    `torch.compile` would look before every call whether some thousand Python objects are still
    what they were, which takes as long as everything in a step that is not a matrix product. Here
    a function is traced down to its tensor operations; whatever else it uses must stay as it is.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Callable[..., object]] = {}

    def bound(
        self, name: Hashable, function: Callable[..., None], fixed: Trees, changing: Trees
    ) -> Callable[[Trees], None]:
        """``function(*fixed, *changing)`` as a program of what changes from call to call."""
        held, first = _leaves(fixed), _leaves(changing)
        shapes = tuple((tensor.shape, tensor.stride()) for tensor in held + first)
        if (name, shapes) not in self._made:
            flat, form = tree_flatten((*fixed, *changing))
            step = _compiled(lambda *tensors: function(*tree_unflatten(tensors, form)), flat)
            self._made[name, shapes] = step
        program = self._made[name, shapes]

        def run(changing: Trees) -> None:
            program(*held, *_leaves(changing))

        return run


def _leaves(trees: Trees) -> list[Tensor]:
    """All tensors in their order; torch's own function for any tree takes ten times as long."""
    found: list[Tensor] = []
    for tree in trees:
        found += tree.values() if isinstance(tree, dict) else [tree]
    return found


def _compiled(function: Callable[..., None], arguments: list[Tensor]) -> Callable[..., object]:
    import torch._inductor  # takes a second
    from torch.fx.experimental.proxy_tensor import make_fx

    def changing(*tensors: Tensor) -> tuple[()]:
        function(*tensors)
        return ()

    graph = make_fx(changing)(*(tensor.clone() for tensor in arguments))
    compiled: Callable[..., object] = torch._inductor.compile(graph, [*arguments])
    return compiled
