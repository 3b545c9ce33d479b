"""Random streams: every random number of a run comes from (seed, purpose, keys).

Nobody touches a global generator, and a stream is made anew wherever it is needed, so no
generator state has to be saved: a resumed run draws what the uninterrupted one drew.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """The generator for one purpose, e.g. ``stream(seed, "explore", round, client)``."""
    entropy = [seed, zlib.crc32(purpose.encode()), *keys]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


@contextmanager
def torch_seeded(seed: int, purpose: str, *keys: int) -> Iterator[None]:
    """Inside, torch draws from this stream (e.g. initial weights); outside, nothing has changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, purpose, *keys).integers(2**62)))
        yield
