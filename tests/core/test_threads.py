"""The number of threads holds inside the block and not longer."""

from __future__ import annotations

import pytest
import torch
from threadpoolctl import threadpool_info

from comity.core.threads import limited


def blas() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_torch_and_blas_are_limited_inside_and_restored_after():
    before = blas()
    with limited(1):
        assert torch.get_num_threads() == 1
        assert blas() <= {1}
    assert torch.get_num_threads() == 2
    assert blas() == before


def test_an_error_restores_them_too():
    with pytest.raises(ZeroDivisionError), limited(1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 2
