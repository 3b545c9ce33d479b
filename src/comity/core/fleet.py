"""A fleet: n models of one architecture as one dict of stacked tensors, client first.

Everything a federation does to parameters happens here: running all models at once, mixing them
(a small matrix times the fleet), and comparing them (a Gram or similarity matrix, blockwise), so
that the rules of the algorithms only ever see rows x givers or n x n numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from comity.core.typing import AnyArray, BoolArray, FloatArray, IntArray, Tree

_ROWS = 8  # whole rows that are held at once
_BLOCK, _COLUMNS = 256, 4096  # rows and columns of one matrix product
_TINY = 1e-12


class Fleet:
    """n models of one architecture; ``tensors[name]`` has shape ``(n, *shape of the tensor)``."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors: Tree = dict(tensors)
        sizes = {tensor.shape[0] for tensor in self.tensors.values()}
        if len(sizes) != 1:
            raise ValueError(f"a fleet needs one client axis, got lengths {sorted(sizes)}")
        self.size: int = sizes.pop()

    @classmethod
    def of(cls, module: nn.Module, n: int) -> Fleet:
        """n copies of one module's parameters, and of the statistics that it keeps."""
        return cls(
            {
                name: tensor.detach().expand(n, *tensor.shape).clone()
                for name, tensor in module.state_dict().items()
                if tensor.is_floating_point()
            }
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Fleet | None:
        """What was saved as plain arrays; None if nothing was."""
        found = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return cls(found) if found else None

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __getstate__(self) -> dict[str, Any]:
        """Between processes fleets travel by value, as plain arrays."""
        return {name: tensor.detach().numpy() for name, tensor in self.tensors.items()}

    def __setstate__(self, arrays: dict[str, Any]) -> None:
        self.__init__({k: torch.from_numpy(a) for k, a in arrays.items()})  # type: ignore[misc]

    def group(self, *patterns: str) -> Fleet:
        """The tensors whose names match one of the patterns (``"head.*"``)."""
        if "*" in patterns:
            return Fleet(self.tensors)
        return Fleet(
            {
                name: tensor
                for name, tensor in self.tensors.items()
                if any(fnmatchcase(name, pattern) for pattern in patterns)
            }
        )

    def select(self, rows: Sequence[int] | IntArray) -> Fleet:
        """Some rows in the order given; all rows in their order are not copied."""
        index = np.asarray(rows, dtype=np.int64)
        if np.array_equal(index, np.arange(self.size)):
            return Fleet(self.tensors)
        place = torch.from_numpy(index)
        return Fleet({name: tensor[place] for name, tensor in self.tensors.items()})

    def put(self, rows: Sequence[int] | IntArray, other: Fleet) -> None:
        """Overwrite some rows, for the names that ``other`` has; what `select` shares is there."""
        index = torch.as_tensor(np.asarray(rows, dtype=np.int64))
        for name, tensor in other.tensors.items():
            if tensor is not self.tensors[name]:
                self.tensors[name][index] = tensor

    def clone(self) -> Fleet:
        return Fleet({name: tensor.clone() for name, tensor in self.tensors.items()})

    @staticmethod
    def cat(fleets: Sequence[Fleet]) -> Fleet:
        """The rows of several fleets of one architecture, one below the other."""
        return Fleet({name: torch.cat([fleet[name] for fleet in fleets]) for name in fleets[0]})

    def module(self, row: int, template: nn.Module) -> nn.Module:
        """Load one row into a plain module."""
        own = {name: tensor[row] for name, tensor in self.tensors.items()}
        template.load_state_dict({**template.state_dict(), **own})  # counters stay as they are
        return template

    def finite(self) -> BoolArray:
        """Which rows hold only finite numbers."""
        good = torch.ones(self.size, dtype=torch.bool)
        for tensor in self.tensors.values():
            # a sum is finite only if every term is, and needs no mask as large as the tensor
            total = tensor.reshape(self.size, -1).sum(dim=1, dtype=torch.float64)
            good &= torch.isfinite(total)
        return np.asarray(good.numpy(), dtype=np.bool_)

    # -- the algebra of the server ---------------------------------------------------------

    def mix(self, weights: FloatArray) -> Fleet:
        """``weights`` (rows x n) times the fleet: one server model a row."""
        matrix = torch.as_tensor(np.asarray(weights), dtype=torch.float32)
        return Fleet(
            {
                name: (matrix @ tensor.reshape(self.size, -1)).reshape(-1, *tensor.shape[1:])
                for name, tensor in self.tensors.items()
            }
        )

    def mean(self) -> Fleet:
        """The plain mean of all rows, as a fleet of one."""
        return self.mix(np.full((1, self.size), 1.0 / self.size))

    def distance(self, other: Fleet) -> FloatArray:
        """Euclidean distance of each row from ``other`` (one row, or as many)."""
        squares = np.zeros(self.size)
        for name in self.tensors:
            for rows, block in self._moved(name, other):
                squares[rows] += torch.linalg.vector_norm(block, dim=1).double().square().numpy()
        return np.sqrt(squares)

    def gram(self, start: Fleet | None = None) -> dict[str, FloatArray]:
        """Inner products of all pairs of rows, one n x n matrix a tensor, in float64.

        ``start`` (one row, or n rows) is subtracted *before* the product: the Gram matrix of
        models, centred afterwards, has no correct digit left when updates are small.
        """
        grams = {}
        for name in self.tensors:
            grams[name] = np.zeros((self.size, self.size))
            self._add_products(name, start, grams[name])
        return grams

    def total_gram(self, start: Fleet | None = None) -> FloatArray:
        """Return the inner products of whole rows (n x n): the sum of `gram` over all tensors."""
        total: FloatArray = sum(self.gram(start).values(), np.zeros(()))
        return total

    def similarity(self, start: Fleet | None = None, top_r: float = 1.0) -> FloatArray:
        """Mean over tensors of the cosine between rows' updates from ``start`` (n x n).

        With ``top_r`` below one, only the ``ceil(top_r * size)`` entries of largest magnitude of
        each row and tensor count (entries that tie with the last one all count). A zero update
        has cosine 0 to everybody; a tensor in which nobody moved is left out; the diagonal is 1.
        """
        total = np.zeros((self.size, self.size))
        live = 0
        for name in self.tensors:
            least, norms = self._largest(name, start, top_r)
            if norms.any():
                live += 1
                self._add_products(name, start, total, least, norms.clamp(min=_TINY))
        total /= max(live, 1)
        np.clip(total, -1.0, 1.0, out=total)
        np.fill_diagonal(total, 1.0)
        return total

    def _moved(self, name: str, start: Fleet | None) -> Iterator[tuple[slice, Tensor]]:
        """One tensor of all models, measured from ``start``, a few rows at a time."""
        flat, base = self._flat(name), None if start is None else start._flat(name)
        for lo in range(0, self.size, _ROWS):
            rows = slice(lo, lo + _ROWS)
            block = flat[rows]
            if base is not None:
                block = block - (base if len(base) == 1 else base[rows])
            yield rows, block

    def _flat(self, name: str) -> Tensor:
        return self.tensors[name].reshape(self.size, -1)

    def _largest(self, name: str, start: Fleet | None, top_r: float) -> tuple[Tensor, Tensor]:
        """The least magnitude among each row's top-R entries, and the norm of those entries."""
        width = self.tensors[name][0].numel()
        dropped = width - ceil(top_r * width - 1e-9)
        least, norms = torch.zeros(self.size, 1), torch.zeros(self.size, 1)
        for rows, block in self._moved(name, start):
            if dropped > 0:
                magnitude = block.abs()
                magnitude.numpy().partition(dropped, axis=1)
                least[rows] = magnitude[:, dropped, None]
                block = block.masked_fill(block.abs() < least[rows], 0.0)
            norms[rows] = torch.linalg.vector_norm(block, dim=1, keepdim=True)
        return least, norms

    def _add_products(
        self,
        name: str,
        start: Fleet | None,
        total: FloatArray,
        least: Tensor | None = None,
        norms: Tensor | None = None,
    ) -> None:
        """Add X Xᵀ for one tensor to ``total``: float32 products, summed in float64.

        X has the entries of at least a row's ``least`` magnitude, divided by the row's norm. Only
        some columns of it are ever held, and only blocks on and above the diagonal computed.
        """
        flat, base = self._flat(name), None if start is None else start._flat(name)
        for at in range(0, flat.shape[1], _COLUMNS):
            columns = slice(at, at + _COLUMNS)
            block = (
                flat[:, columns].clone() if base is None else flat[:, columns] - base[:, columns]
            )
            if least is not None:
                block.masked_fill_(block.abs() < least, 0.0)
            if norms is not None:
                block /= norms
            for lo in range(0, self.size, _BLOCK):
                for low in range(lo, self.size, _BLOCK):
                    rows, others = slice(lo, lo + _BLOCK), slice(low, low + _BLOCK)
                    product = (block[rows] @ block[others].T).numpy()
                    total[rows, others] += product
                    if low != lo:
                        total[others, rows] += product.T


# -- running all models of a fleet at once -------------------------------------------------

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_POINTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU, nn.SiLU, nn.Identity)


class _StackedLinear(torch.autograd.Function):
    """n linear layers at once.

    Autograd's own backward of ``baddbmm`` hands the weight gradient back transposed, which makes
    everything after it (clipping, Adam) stride through memory: three times slower in all.
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
        if not ctx.needs_input_grad[1]:  # a gradient that only passes through, as an actor's does
            return upstream, None, None
        return upstream, torch.bmm(grad.transpose(1, 2), inputs), grad.sum(1)


def convolves(module: nn.Module) -> bool:
    """Whether a network has convolutions: these are faster client by client than mapped."""
    return any(isinstance(part, _CONVOLUTIONS) for part in module.modules())


def forward(module: nn.Module) -> Callable[[Tree, Tensor], Tensor]:
    """A function ``(stacked parameters, inputs (n, batch, ...)) -> outputs (n, batch, ...)``.

    Plain chains of linear and pointwise layers run as batched matrix products; networks with
    convolutions client by client, which is faster than one grouped convolution; any other module
    is mapped over the client axis with ``torch.func``.
    """
    if convolves(module):
        return one_by_one(module)
    layers = list(module.named_children())
    if isinstance(module, nn.Sequential) and all(
        isinstance(layer, _POINTWISE) or (isinstance(layer, nn.Linear) and layer.bias is not None)
        for _, layer in layers
    ):

        def chain(tensors: Tree, inputs: Tensor) -> Tensor:
            for name, layer in layers:
                if isinstance(layer, nn.Linear):
                    weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
                    inputs = _StackedLinear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
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
    """Stacked tensors, client by client.

    Not by indexing, whose backward makes a whole stack of zeros for every single client.
    """
    parts = {name: tensor.unbind(0) for name, tensor in tensors.items()}
    count = len(next(iter(parts.values())))
    return [{name: part[row] for name, part in parts.items()} for row in range(count)]


def one_by_one(module: nn.Module) -> Callable[[Tree, Tensor], Tensor]:
    """The same for a module that cannot be mapped: a plain loop over the clients."""

    def looped(tensors: Tree, inputs: Tensor) -> Tensor:
        outputs = [
            functional_call(module, own, (inputs[row],)) for row, own in enumerate(unbound(tensors))
        ]
        return torch.stack(outputs)

    return looped
