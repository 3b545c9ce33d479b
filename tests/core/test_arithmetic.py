from __future__ import annotations

import numpy as np
import pytest
import torch

from comity.core.fleet import Fleet


def fleet(*rows: list[float]) -> Fleet:
    return Fleet({"a": torch.tensor(rows), "b.c": 10 * torch.tensor(rows)})


def test_arithmetic_is_name_by_name():
    one, other = fleet([1.0, 2.0], [3.0, 4.0]), fleet([5.0, 8.0])
    for result, expected in (
        (one + other, [[6, 10], [8, 12]]),
        (one - other, [[-4, -6], [-2, -4]]),
        (one * other, [[5, 16], [15, 32]]),
        (one / other, [[0.2, 0.25], [0.6, 0.5]]),
        (-one, [[-1, -2], [-3, -4]]),
        (2 * one, [[2, 4], [6, 8]]),
        (one * np.float64(2), [[2, 4], [6, 8]]),
        (np.float64(2) * one, [[2, 4], [6, 8]]),
        (np.float32(0.5) * one, [[0.5, 1], [1.5, 2]]),
        (one / 2, [[0.5, 1], [1.5, 2]]),
        (1 + one, [[2, 3], [4, 5]]),
        (one - one.mean(), [[-1, -1], [1, 1]]),
        (one.mean(np.array([1, 3])), [[2.5, 3.5]]),
        ((one * one).map(torch.sqrt), [[1, 2], [3, 4]]),
        (one.map(torch.maximum, other - 4), [[1, 4], [3, 4]]),
    ):
        assert isinstance(result, Fleet)
        assert result.size == len(expected)
        torch.testing.assert_close(result["a"], torch.tensor(expected).float())
    torch.testing.assert_close((one + other)["b.c"], torch.tensor([[60.0, 100], [80, 120]]))


def test_operands_must_fit():
    one = fleet([1.0, 2.0])
    with pytest.raises(ValueError, match=r"only one of two operands has b\.c"):
        one + one.group("a")
    with pytest.raises(TypeError, match="a fleet and a ndarray: give a number or a fleet"):
        one * np.array([1.0, 2.0])
