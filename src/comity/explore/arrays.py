"""Arrays of numbers as JSON: short ones as lists, long ones as base64 of typed arrays."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from comity.core.typing import AnyArray

SHORT = 600
"""Arrays with no more numbers are lists."""
LONG = 50_000
"""Arrays with more numbers have 16 bits per number."""
_MISSING = -32768
_DIGITS = 6


def packed(values: Any) -> Any:
    """Return an array as JSON.

    A list, in which null stands for what is missing; or an object with ``dtype``, ``shape``,
    ``scale``, ``offset`` and ``data`` (base64, little endian): value = number · scale + offset.
    Missing are NaN (f4) and −32768 (i2).

    Args:
        values: Numbers of any shape; None or NaN where one is missing.
    """
    array = np.asarray(values)
    if array.dtype.kind in "ui":
        return array.tolist() if array.size <= SHORT else _integers(array)
    array = array.astype(np.float64)
    array = np.where(np.isfinite(array), array, np.nan)
    if array.size <= SHORT:
        return _listed(array.round(_DIGITS).tolist())
    return _object(array.astype("<f4"), "f4") if array.size <= LONG else _rounded(array)


def rounded(values: Any) -> list[Any]:
    """Return an array as a list, however long it is."""
    listed: list[Any] = _listed(np.asarray(values, dtype=np.float64).round(_DIGITS).tolist())
    return listed


def _listed(values: Any) -> Any:
    if isinstance(values, list):
        return [_listed(value) for value in values]
    return values if np.isfinite(values) else None


def _integers(array: AnyArray) -> dict[str, Any]:
    largest = int(array.max())
    kind = "u1" if largest < 1 << 8 else "u2" if largest < 1 << 16 else "u4"
    return _object(array.astype(f"<{kind}"), kind)


def _rounded(array: AnyArray) -> dict[str, Any]:
    """Return numbers in 65,535 steps between the smallest and the largest."""
    known = array[np.isfinite(array)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    scale = (high - low) / 65_534 or 1.0
    offset = low + 32_767 * scale
    steps = np.where(np.isfinite(array), np.rint((array - offset) / scale), _MISSING)
    return _object(steps.astype("<i2"), "i2", scale, offset)


def _object(array: AnyArray, kind: str, scale: float = 1.0, offset: float = 0.0) -> dict[str, Any]:
    return {
        "dtype": kind,
        "shape": list(array.shape),
        "scale": scale,
        "offset": offset,
        "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    }
