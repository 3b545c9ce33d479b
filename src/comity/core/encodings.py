"""Encodings: how models travel, measured from a base that both sides hold, in fewer bits.

x: what is sent; b: the base, with equal bits on both sides; d = x - b in float64; m: the largest
magnitude in one row of one tensor of d.

| name      | on the wire                                                     | decoded       |
| `exact`   | bits(x) xor bits(b), all first bytes, all second bytes ...       | x             |
| `float16` | p = min(127, 14 - floor(log2 m)) as int8; h = half(d * 2^p)      | b + h * 2^-p  |
| `int8`    | s = m / 127 as float32; q = d / s, rounded half to even          | b + q * s     |
| `int4`    | the same with 7 for 127; two per byte, the first one high, + 8   | b + q * s     |

`none` sends x as it is. Everything else is deflated. Decoding is done in float64 and rounded once:
products are exact in float64, so every machine gets the same bits. Only trained parameters may lose
precision; all other tensors, those that are not float32, and those whose shape is not that of their
base (which are measured from zero) are exact under every encoding.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from comity.core.typing import AnyArray, FloatArray, NamedArrays

ENCODINGS = ("none", "exact", "float16", "int8", "int4")
"""Names of the encodings, from no loss to the largest."""
Layout = Mapping[str, tuple[str, tuple[int, ...]]]
"""Type (``f4``) and shape of arrays by name, in the order in which they travel."""
Kind = tuple[str, tuple[int, ...]]
"""Type and shape of an array."""
_LEVELS = {"int8": 127, "int4": 7}
_LARGEST = float(np.finfo(np.float32).max)
_LEVEL = 6  # of deflate: half the time of 9, 0.5 % larger


@dataclass(frozen=True)
class Encoded:
    """One client's models as they travel."""

    base: bytes
    """First half of the checksum of the base."""
    body: bytes
    """The deflated tensors."""


@dataclass(frozen=True)
class Encoding:
    """One encoding of one federation's models.

    All arrays have one client's rows first: one, or one per objective. Each row of each tensor has
    a scale of its own.
    """

    name: str
    """One of `ENCODINGS`, not `none`."""
    lossy: Collection[str] = frozenset()
    """Tensors that may lose precision: trained parameters."""

    @property
    def feeds_back(self) -> bool:
        """Whether senders add what was lost in one update to the next one."""
        return self.name == "int4"

    def encode(
        self, tensors: NamedArrays, base: NamedArrays, residual: NamedArrays | None = None
    ) -> tuple[bytes, NamedArrays]:
        """Return the body of a message, and the tensors that decoding it gives.

        Args:
            tensors: Tensors of one client, in the order in which they travel.
            base: What they are measured from, one row.
            residual: What earlier updates have lost, which is added; changed in place to what is
                lost after this one.
        """
        parts, decoded = [], {}
        for name, values in tensors.items():
            kind = described(values)
            start = _start(kind, base.get(name))
            if not self._loses(name, kind, start):
                parts.append(_shuffled(values, start))
                decoded[name] = values.copy()
                continue
            assert start is not None
            exact = values.astype(np.float64)
            if residual is not None:
                exact += residual[name]
            parts.append(self._packed(exact - start))
            decoded[name] = self._unpacked(parts[-1], values.shape, start)
            if residual is not None:
                with np.errstate(invalid="ignore"):
                    residual[name][...] = exact - decoded[name]
        return zlib.compress(b"".join(parts), _LEVEL), decoded

    def decode(self, body: bytes, layout: Layout, base: NamedArrays) -> NamedArrays:
        """Return the tensors in the body of a message.

        Args:
            body: The deflated tensors.
            layout: Types and shapes of the tensors, in the order in which they travel.
            base: What they are measured from, one row.

        Raises:
            ValueError: the body does not inflate to exactly these tensors. No more is inflated
                than they need.
        """
        starts = {name: _start(kind, base.get(name)) for name, kind in layout.items()}
        sizes = {name: self._size(name, layout[name], starts[name]) for name in layout}
        raw = _inflated(body, sum(sizes.values()))
        tensors, place = {}, 0
        for name, kind in layout.items():
            part, start = raw[place : place + sizes[name]], starts[name]
            place += sizes[name]
            if self._loses(name, kind, start):
                assert start is not None
                tensors[name] = self._unpacked(part, kind[1], start)
            else:
                tensors[name] = _unshuffled(part, kind, start)
        return tensors

    def largest(self, layout: Layout, base: NamedArrays) -> int:
        """Return the most bytes that a body can have, whatever the values.

        Args:
            layout: Types and shapes of the tensors.
            base: What they are measured from, one row; only shapes count.
        """
        raw = sum(self._size(n, kind, _start(kind, base.get(n))) for n, kind in layout.items())
        return raw + (raw >> 12) + (raw >> 14) + (raw >> 25) + 13  # zlib's own bound

    def _loses(self, name: str, kind: Kind, start: AnyArray | None) -> bool:
        """Return whether a tensor loses precision."""
        lossy = self.name != "exact" and name in self.lossy
        return lossy and kind[0] == "f4" and start is not None

    def _size(self, name: str, kind: Kind, start: AnyArray | None) -> int:
        """Return the bytes of a tensor before they are deflated."""
        dtype, (rows, *shape) = kind
        count = prod(shape)
        if not self._loses(name, kind, start):
            return rows * count * int(dtype[1])
        each = {"float16": 2 * count + 1, "int8": count + 4, "int4": (count + 1) // 2 + 4}
        return rows * each[self.name]

    def _packed(self, moved: FloatArray) -> bytes:
        """Return the bytes of d, row by row; a row that is not finite decodes to no number."""
        flat = moved.reshape(len(moved), -1)
        most = np.abs(flat).max(axis=1, initial=0.0)
        broken = ~np.isfinite(most)
        flat, most = np.where(broken[:, None], 0.0, flat), np.where(broken, 0.0, most)
        if self.name == "float16":
            power = np.where(most > 0, np.minimum(127, 15 - np.frexp(most)[1]), 0)
            halves = np.ldexp(flat, power[:, None]).astype("<f2")
            halves[broken] = np.nan
            return power.astype(np.int8).tobytes() + halves.tobytes()
        levels = _LEVELS[self.name]
        scale = (most / levels).astype(np.float32)
        short = scale.astype(np.float64) * levels < most  # rounded down: the largest must fit
        scale[short] = np.nextafter(scale[short], np.float32(np.inf))
        steps = np.rint(flat / np.where(scale > 0, scale, 1.0).astype(np.float64)[:, None])
        scale[broken] = np.nan
        return scale.astype("<f4").tobytes() + self._bits(steps.astype(np.int8))

    def _bits(self, steps: AnyArray) -> bytes:
        if self.name == "int8":
            return steps.tobytes()
        nibbles = np.zeros((len(steps), -(-steps.shape[1] // 2) * 2), dtype=np.uint8)
        nibbles[:, : steps.shape[1]] = steps + 8
        return (nibbles[:, ::2] << 4 | nibbles[:, 1::2]).tobytes()

    def _unpacked(self, data: bytes, shape: tuple[int, ...], start: AnyArray) -> AnyArray:
        """Return b + d, in float64 and rounded once."""
        rows, count = shape[0], prod(shape[1:])
        with np.errstate(invalid="ignore", over="ignore"):
            if self.name == "float16":
                power = np.frombuffer(data, np.int8, rows).astype(np.int64)
                halves = np.frombuffer(data, "<f2", rows * count, offset=rows).reshape(rows, count)
                moved = np.ldexp(halves.astype(np.float64), -power[:, None])
            else:
                scale = np.frombuffer(data, "<f4", rows).astype(np.float64)
                moved = self._steps(data[4 * rows :], rows, count) * scale[:, None]
            whole = start.astype(np.float64) + moved.reshape(shape)
            # a scale is rounded, so the sum may leave the range that both x and b are in
            return np.clip(whole, -_LARGEST, _LARGEST).astype(np.float32)

    def _steps(self, data: bytes, rows: int, count: int) -> FloatArray:
        if self.name == "int8":
            return np.frombuffer(data, np.int8).reshape(rows, count).astype(np.float64)
        pairs = np.frombuffer(data, np.uint8).reshape(rows, -1)
        nibbles = np.stack([pairs >> 4, pairs & 15], axis=2).reshape(rows, -1)
        return nibbles[:, :count].astype(np.float64) - 8.0


def described(array: AnyArray) -> Kind:
    """Return type and shape of an array, as a `Layout` has them."""
    return f"{array.dtype.kind}{array.dtype.itemsize}", array.shape


def digest(arrays: Mapping[str, AnyArray]) -> bytes:
    """Return the first half of the SHA-256 of arrays in their order: what identifies a base."""
    checksum = hashlib.sha256()
    for array in arrays.values():
        checksum.update(raw(array))
    return checksum.digest()[:16]


def raw(array: AnyArray) -> bytes:
    """Return an array's bytes as they travel: little-endian."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def _start(kind: Kind, base: AnyArray | None) -> AnyArray | None:
    """Return the base of a tensor; None if it has another type or shape, so zero counts."""
    if base is None:
        return None
    dtype, shape = described(base)
    return base if (dtype, shape[1:]) == (kind[0], kind[1][1:]) else None


def _shuffled(values: AnyArray, start: AnyArray | None) -> bytes:
    """Return bits(x) xor bits(b): all first bytes, all second bytes and so on."""
    size = values.dtype.itemsize
    bits = np.frombuffer(raw(values), np.uint8).reshape(len(values), -1, size)
    if start is not None:
        bits = bits ^ np.frombuffer(raw(start), np.uint8).reshape(len(start), -1, size)
    return bits.transpose(0, 2, 1).tobytes()


def _unshuffled(data: bytes, kind: Kind, start: AnyArray | None) -> AnyArray:
    dtype, shape = kind
    size = int(dtype[1])
    bits = np.frombuffer(data, np.uint8).reshape(shape[0], size, -1).transpose(0, 2, 1)
    if start is not None:
        bits = bits ^ np.frombuffer(raw(start), np.uint8).reshape(len(start), -1, size)
    values = np.frombuffer(np.ascontiguousarray(bits).tobytes(), f"<{dtype}")
    return values.reshape(shape).astype(np.dtype(dtype))


def _inflated(body: bytes, length: int) -> bytes:
    """Return the content of a deflated body, which must have exactly this length."""
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(body, length + 1)
    except zlib.error:
        raise ValueError("not deflated") from None
    if len(content) != length or not inflater.eof or inflater.unused_data:
        raise ValueError("another length")
    return content
