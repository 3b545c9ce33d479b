"""Attributes of an object as plain values and named arrays, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from comity.core.fleet import Fleet

_FLEET, _ARRAYS = "/", ":"
_NAME = re.compile(r"(?P<attribute>\w+)(?:(?P<kind>[/:])(?P<key>.*))?", re.DOTALL)
"""Name of a packed value: an attribute, or one tensor or array of an attribute."""


def packed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as plain values and arrays, by name.

    Args:
        attributes: Numbers, strings, lists, arrays, dicts of arrays by name, and fleets.

    Raises:
        TypeError: an attribute is something else; its text is the attribute's name.
    """
    values: dict[str, Any] = {}
    for name, value in attributes.items():
        if isinstance(value, Fleet):
            values |= {f"{name}{_FLEET}{k}": t.numpy(force=True) for k, t in value.tensors.items()}
        elif isinstance(value, dict) and _named_arrays(value):
            values |= {f"{name}{_ARRAYS}{k}": array for k, array in value.items()}
        elif isinstance(value, bool | int | float | str | list | np.ndarray):
            values[name] = value
        else:
            raise TypeError(name)
    return values


def unpacked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of which `packed` made these values; empty dicts are left out."""
    attributes: dict[str, Any] = {}
    kinds: dict[str, str | None] = {}
    for name, value in values.items():
        match = _NAME.fullmatch(name)
        assert match is not None, name
        attribute, kinds[match["attribute"]] = match["attribute"], match["kind"]
        if match["kind"] is None:
            attributes[attribute] = value
        else:
            attributes.setdefault(attribute, {})[match["key"]] = value
    return {
        name: Fleet.from_arrays(content) if kinds[name] == _FLEET else content
        for name, content in attributes.items()
    }


def plain(value: Any) -> Any:
    """Return a value as JSON has it: arrays become lists, numbers of numpy plain ones.

    Args:
        value: None, numbers, strings, arrays, and lists and dicts of them.

    Raises:
        TypeError: something else is among them.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    raise TypeError(f"{type(value).__name__} is no plain value")


def _named_arrays(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(k, str) and isinstance(v, np.ndarray) for k, v in value.items())
