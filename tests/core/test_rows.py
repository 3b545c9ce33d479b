"""Equal rows are held once, and come back as they were."""

from __future__ import annotations

import numpy as np
import pytest

from comity.core.rows import restore_rows, share_rows

WIDE = np.arange(64, dtype=np.float32).reshape(4, 16)
"""Four different rows of 64 bytes."""


def same(one, other):
    assert list(one) == sorted(other)
    for name, array in other.items():
        np.testing.assert_array_equal(one[name], array, strict=True)


def test_a_row_met_before_is_an_index():
    arrays = {"kept": WIDE[[0, 0, 2, 3]], "models": WIDE[[0, 1, 2, 2]], "start": WIDE[[1, 1, 1, 1]]}
    shared = share_rows(arrays)
    np.testing.assert_array_equal(shared["rows/kept"], WIDE[[0, 2, 3]])
    np.testing.assert_array_equal(shared["index/kept"], [0, 0, 1, 2])
    np.testing.assert_array_equal(shared["rows/models"], WIDE[[1]])
    np.testing.assert_array_equal(shared["index/models"], [0, 3, 1, 1])
    np.testing.assert_array_equal(shared["index/start"], [3, 3, 3, 3])
    assert shared["rows/start"].shape == (0, 16)
    assert len(shared) == 6
    same(restore_rows(shared), arrays)


def test_bits_count_not_values():
    zeros = np.zeros((2, 16), dtype=np.float32)
    zeros[1] = -0.0
    nan = np.full((2, 16), np.nan, dtype=np.float32)
    arrays = {"zeros": zeros, "nan": nan, "integers": np.zeros((2, 16), dtype=np.int32)}
    shared = share_rows(arrays)
    assert shared["zeros"] is zeros
    assert len(shared["rows/nan"]) == len(shared["rows/integers"]) == 1
    back = restore_rows(shared)
    assert {name: array.tobytes() for name, array in back.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def test_arrays_of_different_or_short_rows_are_not_copied():
    arrays = {
        **{"different": WIDE, "short": np.zeros((3, 2)), "flat": np.zeros(50)},
        **{"single": np.array(3.0), "empty": np.zeros((0, 32)), "also/nested": WIDE.reshape(2, 32)},
    }
    shared = share_rows(arrays)
    assert all(shared[name] is array for name, array in arrays.items())
    same(restore_rows(shared), arrays)


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_any_layout_come_back(seed):
    draw = np.random.default_rng(seed)
    table = draw.integers(0, 2, (6, 5, 4)).astype(np.float64)
    arrays = {f"{n}/{k}": table[draw.integers(0, 6, 7)] for n in range(12) for k in "ab"}
    arrays["turned"] = np.asfortranarray(arrays["0/a"])
    shared = share_rows(arrays)
    same(restore_rows(shared), arrays)
    assert sum(len(a) for k, a in shared.items() if not k.startswith("index/")) <= 6


def test_shared_rows_are_shared_again_with_those_of_others():
    """Chunks may share their rows before all are put together."""
    chunks = {"0": {"models": WIDE[[0, 0, 1]]}, "1": {"models": WIDE[[0, 2, 2]]}}
    whole = {f"{n}/{k}": a for n, part in chunks.items() for k, a in share_rows(part).items()}
    again = share_rows(whole)
    assert sum(len(a) for a in again.values() if a.ndim == 2) == 3
    same(restore_rows(again), whole)
