"""A fleet: n models of one architecture as one dict of stacked tensors, client first.

All operations on parameters are here: mixing them (a small matrix times the fleet), and comparing
them (a Gram or similarity matrix, blockwise). The rules of the algorithms therefore work on small
matrices only, rows x givers or n x n. Running all models at once: `comity.core.running`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from comity.core.arithmetic import Arithmetic
from comity.core.devices import CPU, in_double
from comity.core.typing import AnyArray, BoolArray, FloatArray, IntArray, NamedArrays

_ROWS = 8  # whole rows held at once
_BLOCK, _COLUMNS = 256, 4096  # rows and columns of one matrix product
_TINY = 1e-12


class Fleet(Arithmetic):
    """n models of one architecture; ``tensors[name]`` has shape ``(n, *shape of the tensor)``.

    ``len(fleet)`` is n, iteration yields the names, ``fleet[name]`` is one stacked tensor. Fleets
    are added, subtracted, multiplied and divided name by name (`Arithmetic`).

    Args:
        tensors: Stacked tensors by name. All have the same first axis, one row per client.

    Attributes:
        tensors: The same tensors, as a dict that belongs to this fleet.
        size: Number of models, n.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(tensors)
        sizes = {tensor.shape[0] for tensor in self.tensors.values()}
        if len(sizes) != 1:
            raise ValueError(f"a fleet needs one client axis, got lengths {sorted(sizes)}")
        self.size: int = sizes.pop()

    @classmethod
    def of(cls, module: nn.Module, n: int) -> Fleet:
        """Return n copies of a module's floating-point parameters and buffers, on the run's device.

        Args:
            module: The model to copy; it is not changed.
            n: Number of rows.
        """
        return cls(
            {
                name: torch.as_tensor(tensor.detach()).expand(n, *tensor.shape).clone()
                for name, tensor in module.state_dict().items()
                if tensor.is_floating_point()
            }
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Fleet | None:
        """Return the fleet saved as plain stacked arrays, or None if there are no arrays."""
        tensors = {name: torch.as_tensor(array.copy()) for name, array in arrays.items()}
        return cls(tensors) if tensors else None

    def arrays(self) -> NamedArrays:
        """Return plain stacked arrays, as `from_arrays` takes them; on the CPU in shared memory."""
        return {name: tensor.numpy(force=True) for name, tensor in self.tensors.items()}

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return plain arrays: between processes fleets travel by value."""
        return self.arrays()

    def __setstate__(self, arrays: dict[str, Any]) -> None:
        self.__init__({k: torch.as_tensor(a) for k, a in arrays.items()})  # type: ignore[misc]

    def group(self, *patterns: str) -> Fleet:
        """Return the tensors whose names match one of the patterns (``"head.*"``), not copied."""
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
        """Return some rows, in the order of ``rows``; all rows in their order are not copied."""
        index = np.asarray(rows, dtype=np.int64)
        if np.array_equal(index, np.arange(self.size)):
            return Fleet(self.tensors)
        rows_index = torch.as_tensor(index)
        return Fleet({name: tensor[rows_index] for name, tensor in self.tensors.items()})

    def view(self, rows: Sequence[int] | IntArray) -> Fleet:
        """Return some rows as `select` does, but only to look at.

        Rows that follow each other, and one row that is asked for many times, are not copied.
        """
        index = np.asarray(rows, dtype=np.int64)
        if (part := _consecutive(index)) is not None:
            return Fleet({name: tensor[part] for name, tensor in self.tensors.items()})
        if len(index) and (index == index[0]).all():
            return Fleet(
                {k: t[index[0]].expand(len(index), *t.shape[1:]) for k, t in self.tensors.items()}
            )
        return self.select(index)

    @contextmanager
    def borrowed(self, rows: IntArray) -> Iterator[Fleet]:
        """Yield some rows, each asked for once, to be changed in place.

        This fleet has the changes when the block ends; rows that follow each other are not copied.
        """
        if _consecutive(rows) is not None:
            yield self.view(rows)
            return
        copies = self.select(rows)
        yield copies
        self.put(rows, copies)

    def put(self, rows: Sequence[int] | IntArray, other: Fleet) -> None:
        """Overwrite some rows in place; tensors shared by `select` need no copy.

        Args:
            rows: Rows of this fleet to overwrite, one per row of ``other``.
            other: New values, for some or all of the names of this fleet.
        """
        index = torch.as_tensor(np.asarray(rows, dtype=np.int64))
        for name, tensor in other.tensors.items():
            if tensor is not self.tensors[name]:
                self.tensors[name][index] = tensor

    def layers(self) -> Fleet:
        """Return one flat tensor per layer: ``a.weight`` and ``a.bias`` become ``a`` (a copy)."""
        parts: dict[str, list[Tensor]] = {}
        for name in self.tensors:
            parts.setdefault(name.rpartition(".")[0] or name, []).append(self._flat(name))
        return Fleet({layer: torch.cat(flat, dim=1) for layer, flat in parts.items()})

    def clone(self) -> Fleet:
        """Return a copy that shares no memory with this fleet."""
        return Fleet({name: tensor.clone() for name, tensor in self.tensors.items()})

    @staticmethod
    def cat(fleets: Sequence[Fleet]) -> Fleet:
        """Return the rows of several fleets of one architecture, one fleet below the other."""
        return Fleet({name: torch.cat([fleet[name] for fleet in fleets]) for name in fleets[0]})

    def module(self, row: int, template: nn.Module) -> nn.Module:
        """Load one row into a plain module, in place, and return that module.

        Args:
            row: The row to load.
            template: A module of the fleet's architecture.
        """
        values = {name: tensor[row] for name, tensor in self.tensors.items()}
        template.load_state_dict({**template.state_dict(), **values})  # counters stay as they are
        return template

    def distinct(self) -> tuple[IntArray, IntArray]:
        """Return the first row of each different model (m), and the place of each model there (n).

        Models are equal if all their bits are.
        """
        places: dict[bytes, int] = {}
        first: list[int] = []
        place = np.zeros(self.size, dtype=np.int64)
        for row in range(self.size):
            digest = hashlib.sha256()
            for tensor in self.tensors.values():
                digest.update(tensor[row].contiguous().numpy(force=True).data)
            place[row] = places.setdefault(digest.digest(), len(first))
            if place[row] == len(first):
                first.append(row)
        return np.array(first, dtype=np.int64), place

    def finite(self) -> BoolArray:
        """Return a mask (n) of the rows that hold only finite numbers."""
        good = torch.ones(self.size, dtype=torch.bool)
        for tensor in self.tensors.values():
            # a sum is finite only if every term is, and needs no mask as large as the tensor
            flat = tensor.reshape(self.size, -1)
            finite = torch.isfinite(flat.sum(dim=1))
            if flat.numel() and not bool(finite.all()):
                # finite terms may add up to more than a float32 holds
                least, most = flat.aminmax(dim=1)
                finite = torch.isfinite(least) & torch.isfinite(most)
            good &= finite
        return np.asarray(good.numpy(force=True), dtype=np.bool_)

    # -- the algebra of the server ---------------------------------------------------------

    def mix(self, weights: FloatArray) -> Fleet:
        """Return ``weights`` (rows x n) times the fleet: one server model per row."""
        matrix = torch.as_tensor(np.asarray(weights), dtype=torch.float32)
        return Fleet(
            {
                name: (matrix @ tensor.reshape(self.size, -1)).reshape(-1, *tensor.shape[1:])
                for name, tensor in self.tensors.items()
            }
        )

    def mean(self, weights: FloatArray | None = None) -> Fleet:
        """Return the mean of all rows, as a fleet of one.

        Args:
            weights: One weight per row, divided by their sum; None: all rows count alike.
        """
        each = np.ones(self.size) if weights is None else np.asarray(weights, dtype=np.float64)
        return self.mix(each[None] / each.sum())

    def distance(self, other: Fleet) -> FloatArray:
        """Return the Euclidean distance (n) of each row from ``other`` (one row, or n rows)."""
        squares = np.zeros(self.size)
        for name in self.tensors:
            for rows, block in self._moved(name, other):
                squares[rows] += np.square(in_double(torch.linalg.vector_norm(block, dim=1)))
        return np.sqrt(squares)

    def gram(self, start: Fleet | None = None) -> dict[str, FloatArray]:
        """Return the inner products of all pairs of rows, one n x n float64 matrix per tensor.

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
        """Return the mean over tensors of the cosine between rows' updates (n x n).

        A zero update has cosine 0 with every other one; a tensor in which no row differs from
        ``start`` is left out; the diagonal is 1.

        Args:
            start: Where the updates are measured from (one row, or n rows); None: from zero.
            top_r: Share of entries that count: of each row and tensor the ``ceil(top_r * size)``
                entries of largest magnitude (all entries that tie with the last one count).
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
        """Yield one tensor of all models minus ``start``, a few rows at a time."""
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
        """Return the least magnitude among each row's top-R entries, and those entries' norm."""
        width = self.tensors[name][0].numel()
        dropped = width - max(1, ceil(top_r * width - 1e-9))
        least, norms = torch.zeros(self.size, 1), torch.zeros(self.size, 1)
        for rows, block in self._moved(name, start):
            if dropped > 0:
                least[rows] = _smallest(block.abs(), dropped)
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

        X holds the entries whose magnitude is at least their row's ``least``, divided by the
        row's norm. A few columns are held at a time, and only blocks on and above the diagonal
        are computed.
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
                    product = (block[rows] @ block[others].T).numpy(force=True)
                    total[rows, others] += product
                    if low != lo:
                        total[others, rows] += product.T


def _smallest(rows: Tensor, after: int) -> Tensor:
    """Return the least entry of each row after the ``after`` smaller ones, (rows, 1)."""
    if rows.device.type != CPU:
        return rows.kthvalue(after + 1, dim=1, keepdim=True).values
    rows.numpy().partition(after, axis=1)  # in half the time
    return rows[:, after, None]


def _consecutive(rows: IntArray) -> slice | None:
    """Return rows that follow each other as a slice, else None."""
    if not len(rows) or (np.diff(rows) != 1).any():
        return None
    return slice(int(rows[0]), int(rows[-1]) + 1)
