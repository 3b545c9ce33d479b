"""Arrays as JSON and back."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from comity.explore.arrays import LONG, SHORT, packed, rounded


def unpacked(value: Any) -> np.ndarray:
    """Decode an array as the page does."""
    if not isinstance(value, dict):
        return np.array(value, dtype=float)
    raw = np.frombuffer(base64.b64decode(value["data"]), dtype=f"<{value['dtype']}")
    numbers = raw.astype(float).reshape(value["shape"])
    if value["dtype"] == "i2":
        numbers[raw.reshape(value["shape"]) == -32768] = np.nan
    return numbers * value["scale"] + value["offset"]


def test_short_arrays_are_lists_with_null():
    assert packed([[1.0, np.nan], [0.12345678, np.inf]]) == [[1.0, None], [0.123457, None]]
    assert packed(np.array([3, 4])) == [3, 4]
    assert rounded([1 / 3, None]) == [0.333333, None]


@pytest.mark.parametrize(("count", "kind"), [(SHORT + 1, "f4"), (LONG + 1, "i2")])
def test_long_arrays_are_typed(count, kind):
    values = np.linspace(-3.0, 5.0, count)
    values[7] = np.nan
    value = packed(values)
    assert value["dtype"] == kind
    assert value["shape"] == [count]
    np.testing.assert_allclose(unpacked(value), values, atol=8.0 / 65_534)
    assert np.isnan(unpacked(value)[7])


def test_a_long_array_of_equal_numbers_is_exact():
    values = np.full(LONG + 1, 2.5)
    assert (unpacked(packed(values)) == 2.5).all()
    assert np.isnan(unpacked(packed(values * np.nan))).all()


@pytest.mark.parametrize(("largest", "kind"), [(255, "u1"), (256, "u2"), (70_000, "u4")])
def test_whole_numbers_are_as_short_as_they_can_be(largest, kind):
    values = np.arange(SHORT + 1) % (largest + 1)
    values[-1] = largest
    value = packed(values)
    assert value["dtype"] == kind
    assert (unpacked(value) == values).all()
