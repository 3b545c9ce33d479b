"""How many threads a process computes with: part of a configuration, as it may change bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Inside, torch and numpy's BLAS use this many threads.

    Idle BLAS threads spin: with several processes on few cores they take the time of the others.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
