"""Arithmetic of stacked tensors, name by name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Self

import torch
from torch import Tensor

from comity.core.typing import Tree


class Arithmetic:
    """Base class of objects that are made of named tensors: ``+ - * /`` and `map`.

    The other operand is a number or an object with the same names. A single row is used for every
    row: ``fleet - fleet.mean()`` subtracts the mean from each model.
    """

    tensors: Tree
    __array_ufunc__ = None  # numpy's numbers leave ``number * fleet`` to the fleet

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)

    def map(self, function: Callable[..., Tensor], *others: Self) -> Self:
        """Return what a function makes of each tensor and those of the same name in others.

        Args:
            function: From tensors to a tensor, client first: ``torch.sqrt``, ``torch.maximum``.
            others: Further operands, with the same names.

        Raises:
            ValueError: the names differ.
        """
        for other in others:
            if self.tensors.keys() != other.tensors.keys():
                names = sorted(self.tensors.keys() ^ other.tensors.keys())
                raise ValueError(f"only one of two operands has {', '.join(names)}")
        return type(self)(
            {
                name: function(tensor, *(other.tensors[name] for other in others))
                for name, tensor in self.tensors.items()
            }
        )

    def __add__(self, other: Self | float) -> Self:
        return self._combined(operator.add, other)

    def __sub__(self, other: Self | float) -> Self:
        return self._combined(operator.sub, other)

    def __mul__(self, other: Self | float) -> Self:
        return self._combined(operator.mul, other)

    def __truediv__(self, other: Self | float) -> Self:
        return self._combined(operator.truediv, other)

    def __neg__(self) -> Self:
        return self.map(torch.neg)

    __radd__, __rmul__ = __add__, __mul__

    def _combined(self, function: Callable[[Any, Any], Tensor], other: Self | float) -> Self:
        if isinstance(other, Arithmetic):
            return self.map(function, other)
        if not isinstance(other, Real):  # an array would pair clients with entries
            raise TypeError(f"a fleet and a {type(other).__name__}: give a number or a fleet")
        return self.map(lambda tensor: function(tensor, other))
