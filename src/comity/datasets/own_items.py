"""Items of a user's own datasets, one dataset per client, as arrays.

A dataset is anything with a length and items by number: a ``torch.utils.data.Dataset``, a dataset
of Hugging Face, a partition of Flower Datasets, a list. None of these libraries is needed here. An
item is a pair (input, label), with the value of a sensitive attribute as a third, or a mapping of
named columns. Every fault is reported with the client and the item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comity.core.typing import AnyArray, IntArray
from comity.errors import UserError, unknown

PARTS = ("train", "validation", "test")
"""Names of a client's parts."""
DRAWN = -1
"""Part of an item whose use is drawn at random."""
INPUTS = ("inputs", "input", "image", "img", "pixel_values", "features", "x")
"""Columns that are taken as input, the first that there is, where none is named."""
LABELS = ("label", "labels", "y", "target")
"""Columns that are taken as label, likewise."""
MOST_VALUES = 10
"""Largest number of values of an attribute."""
_VALIDATION = {"valid": "validation", "val": "validation", "dev": "validation"}
_LARGEST = 10_000  # a label above this is no class


@dataclass(frozen=True)
class Fields:
    """Columns of items that are mappings; of pairs they mean nothing."""

    inputs: str | tuple[str, ...] | None = None
    """Column of the input, or columns of numbers that together are the input."""
    label: str | None = None
    attribute: str | None = None
    """Column of the sensitive attribute; of items that are no mappings, its name."""


@dataclass(frozen=True, eq=False)
class Items:
    """All items, client by client."""

    inputs: AnyArray
    """Items x shape: bytes (uint8) or float32."""
    label: IntArray
    """Class of each item, 0, 1, …"""
    client: IntArray
    """Client of each item."""
    part: IntArray
    """Use of each item, a place in `PARTS`, or `DRAWN`."""
    values: tuple[str, ...]
    """Names of the attribute's values; none without an attribute."""
    value: IntArray
    """Attribute value of each item, a place in ``values``; all 0 without an attribute."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all items: equal data give equal fingerprints."""
        digest = hashlib.sha256()
        for array in (self.inputs, self.label, self.client, self.part, self.value):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update("\0".join(self.values).encode())
        return digest.hexdigest()


def read_items(clients: Mapping[str, Any], fields: Fields) -> Items:
    """Return the items of all clients.

    Args:
        clients: By the client's name for messages, a dataset, two or three of them for training,
            (validation) and test, or a mapping of them by these names.
        fields: Columns of items that are mappings.
    """
    rows: list[tuple[AnyArray, int, str]] = []
    holders: list[int] = []
    parts: list[int] = []
    kinds: dict[tuple[int, ...], str] = {}
    for number, (name, given) in enumerate(clients.items()):
        datasets = _datasets(name, given)
        kinds.setdefault(tuple(datasets), name)
        if len(kinds) > 1:
            first, second = (f"{who} gives {_listed(kind)}" for kind, who in kinds.items())
            raise UserError(
                f"from_datasets: {first}, but {second}; all clients must give the same."
            )
        for part, dataset in datasets.items():
            where = name if part == DRAWN else f"{name}, {PARTS[part]}"
            for item in range(_length(where, dataset)):
                rows.append(_read(f"{where}, item {item}", dataset, item, fields))
                _check_alike(f"{where}, item {item}", rows[-1][0], next(iter(clients)), rows[0][0])
                holders.append(number)
                parts.append(part)
    names, values = np.unique([value for _, _, value in rows], return_inverse=True)
    if fields.attribute is not None and not 2 <= len(names) <= MOST_VALUES:
        raise UserError(
            f"from_datasets: attribute '{fields.attribute}' has {len(names)} different values; "
            f"there must be 2 to {MOST_VALUES}."
        )
    return Items(
        np.stack([inputs for inputs, _, _ in rows]),
        np.array([label for _, label, _ in rows], dtype=np.int64),
        np.array(holders, dtype=np.int64),
        np.array(parts, dtype=np.int64),
        tuple(names.tolist()) if fields.attribute is not None else (),
        values.astype(np.int64),
    )


# -- datasets ------------------------------------------------------------------------------


def _datasets(client: str, given: Any) -> dict[int, Any]:
    """Return a client's datasets by part, a place in `PARTS` or `DRAWN`."""
    if isinstance(given, Mapping):
        named = {_VALIDATION.get(str(key), str(key)): value for key, value in given.items()}
        for key in named:
            if key not in PARTS:
                raise unknown(f"part of {client}", key, PARTS)
        for key in ("train", "test"):
            if key not in named:
                raise UserError(
                    f"from_datasets: {client} gives {', '.join(named)}, but no {key}; give train "
                    "and test (validation, if absent, is drawn from train), or one dataset."
                )
        return {place: named[part] for place, part in enumerate(PARTS) if part in named}
    if isinstance(given, tuple):
        if not 2 <= len(given) <= len(PARTS):
            raise UserError(
                f"from_datasets: {client} gives {len(given)} datasets; give (train, test) or "
                "(train, validation, test), or one dataset."
            )
        places = (0, 2) if len(given) == 2 else (0, 1, 2)
        return dict(zip(places, given, strict=True))
    return {DRAWN: given}


def _listed(kind: Sequence[int]) -> str:
    return "one dataset" if DRAWN in kind else " and ".join(PARTS[part] for part in kind)


def _length(where: str, dataset: Any) -> int:
    try:
        length = len(dataset)
    except (TypeError, NotImplementedError):
        length = -1
    if length < 0 or not hasattr(dataset, "__getitem__"):
        raise UserError(
            f"from_datasets: {where}: {type(dataset).__name__} has no length and items by number; "
            "give a map-style dataset, or a list of what it yields."
        )
    if not length:
        raise UserError(f"from_datasets: {where} has no items.")
    return length


# -- items ---------------------------------------------------------------------------------


def _read(where: str, dataset: Any, number: int, fields: Fields) -> tuple[AnyArray, int, str]:
    """Return input, label and attribute value of an item."""
    try:
        item = dataset[number]
    except Exception as error:  # whatever the user's own code raises
        raise UserError(
            f"from_datasets: {where} cannot be read: {type(error).__name__}: {error}"
        ) from error
    if isinstance(item, Mapping):
        given, label, value = _columns(where, item, fields)
    else:
        length = 2 if fields.attribute is None else 3
        if not isinstance(item, tuple | list) or len(item) < length:
            third = "" if length == 2 else f", {fields.attribute}"
            raise UserError(
                f"from_datasets: {where} is a {type(item).__name__}; it must be (input, "
                f"label{third}) or a mapping of named columns."
            )
        given, label = item[:2]
        value = item[2] if length == 3 else 0
    return _input(where, given), _label(where, label), _value(value)


def _columns(where: str, item: Mapping[str, Any], fields: Fields) -> tuple[Any, Any, Any]:
    def column(name: str | None, known: Sequence[str], what: str) -> Any:
        chosen = name or next((key for key in known if key in item), None)
        if chosen is None:
            raise UserError(
                f"from_datasets: {where} has the columns {', '.join(map(str, item))}; say which is "
                f"the {what}: {what} = '…'."
            )
        if chosen not in item:
            raise unknown(f"column of {where}", chosen, map(str, item))
        return item[chosen]

    value = 0 if fields.attribute is None else column(fields.attribute, (), "attribute")
    label = column(fields.label, LABELS, "label")
    if not isinstance(fields.inputs, tuple):
        return column(fields.inputs, INPUTS, "inputs"), label, value
    cells = [column(name, (), "inputs") for name in fields.inputs]
    try:
        return np.array([float(cell) for cell in cells], dtype=np.float32), label, value
    except (TypeError, ValueError):
        listed = ", ".join(f"{n} = {c!r}" for n, c in zip(fields.inputs, cells, strict=True))
        raise UserError(f"from_datasets: {where}: inputs must be numbers, got {listed}.") from None


def _input(where: str, given: Any) -> AnyArray:
    """Return an input as bytes or numbers; pictures have their channels first."""
    if hasattr(given, "convert") and hasattr(given, "mode"):  # a picture of Pillow
        given = np.asarray(given.convert("L" if given.mode in ("1", "L") else "RGB"))
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):
        array = np.array(None)
    if array.dtype.kind not in "biuf" or not array.size:
        raise UserError(
            f"from_datasets: {where}: the input is a {type(given).__name__}; it must be a picture, "
            "or numbers (a tensor, an array, a list)."
        )
    if array.dtype != np.uint8:
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise UserError(f"from_datasets: {where}: the input has a number that is not finite.")
    if array.ndim == 2 and array.dtype == np.uint8:
        array = array[None]
    if array.ndim == 3 and array.shape[2] in (1, 3) and array.shape[0] not in (1, 3):
        array = array.transpose(2, 0, 1)
    return array if array.ndim in (1, 3) else array.reshape(-1)


def _label(where: str, given: Any) -> int:
    try:
        label = float(given)
    except (TypeError, ValueError, RuntimeError):
        label = -1.0
    if not (0 <= label <= _LARGEST and label == int(label)):
        raise UserError(
            f"from_datasets: {where}: the label is {given!r}; it must be the number of a class, 0, "
            "1, …"
        )
    return int(label)


def _value(given: Any) -> str:
    """Return an attribute value as text; 1, 1.0 and tensor(1) are the same."""
    plain = given.item() if hasattr(given, "item") else given
    whole = isinstance(plain, float) and plain.is_integer()
    return str(int(plain) if whole or isinstance(plain, bool) else plain)


def _check_alike(where: str, inputs: AnyArray, client: str, first: AnyArray) -> None:
    def shown(array: AnyArray) -> str:
        kind = "bytes" if array.dtype == np.uint8 else "numbers"
        return f"{' x '.join(map(str, array.shape))} ({kind})"

    if (inputs.shape, inputs.dtype) != (first.shape, first.dtype):
        raise UserError(
            f"from_datasets: {where}: the input is {shown(inputs)}, but the first of {client} is "
            f"{shown(first)}; all must be alike."
        )
