"""Equal rows of named arrays, held once.

Clients that never took part hold the initial model, those of one mix hold the same model, and what
a client keeps is often what it has: of the rows of a checkpoint many are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from comity.core.typing import AnyArray, NamedArrays

_NEW, _INDEX = "rows/", "index/"
_LEAST = 64  # bytes of a row; shorter ones are not worth an index

Kind = tuple[str, tuple[int, ...]]
"""Type and shape of a row."""


def share_rows(arrays: NamedArrays) -> NamedArrays:
    """Return the arrays without rows that are equal, bit for bit, to a row before them.

    Rows of all arrays of one type and row shape are numbered as they are met, array by array in
    the order of names. An array ``a`` with a row met before becomes ``rows/a``, its new rows, and
    ``index/a``, the number of each of its rows; other arrays stay as they are, not copied.

    Args:
        arrays: One row per client, or anything else; no name starts with ``rows/`` or ``index/``.
    """
    shared: NamedArrays = {}
    numbers: dict[tuple[Kind, bytes], int] = {}
    counts: dict[Kind, int] = {}
    for name, array in _in_order(arrays):
        if (kind := _kind(array)) is None:
            shared[name] = array
            continue
        index, new = np.zeros(len(array), dtype=np.int64), []
        for place, row in enumerate(array):
            key = kind, hashlib.sha256(np.ascontiguousarray(row).data).digest()
            if key not in numbers:
                numbers[key] = counts[kind] = counts.get(kind, -1) + 1
                new.append(place)
            index[place] = numbers[key]
        if len(new) == len(array):
            shared[name] = array
        else:
            shared |= {f"{_NEW}{name}": array[new], f"{_INDEX}{name}": index}
    return shared


def restore_rows(shared: NamedArrays) -> NamedArrays:
    """Return the arrays of which `share_rows` made these; arrays without indices are the same."""
    arrays: NamedArrays = {}
    rows: dict[Kind, list[AnyArray]] = {}
    stored = {k.removeprefix(_NEW): a for k, a in shared.items() if not k.startswith(_INDEX)}
    for name, array in _in_order(stored):
        arrays[name] = array
        if (kind := _kind(array)) is not None:
            met = rows.setdefault(kind, [])
            met.extend(array)
            if (index := shared.get(f"{_INDEX}{name}")) is not None:
                arrays[name] = np.stack([met[number] for number in index.tolist()])
    return arrays


def _in_order(arrays: NamedArrays) -> Iterator[tuple[str, AnyArray]]:
    return ((name, arrays[name]) for name in sorted(arrays))


def _kind(array: AnyArray) -> Kind | None:
    """Return type and shape of an array's rows; None where they are too short to share."""
    if array.ndim < 2:
        return None
    shape = array.shape[1:]
    size = array.dtype.itemsize * int(np.prod(shape))
    return (array.dtype.str, shape) if size >= _LEAST else None
