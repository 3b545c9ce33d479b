"""Number of threads of a process: part of a configuration, as it may change bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Limit torch and numpy's BLAS to this many threads inside the block.

    Idle BLAS threads spin: with several processes on few cores they take the others' time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
