"""Random streams: every random number of a run comes from (seed, purpose, keys).

No global generator is used, and a stream is made anew wherever it is needed, so no generator state
has to be saved: a resumed run draws the numbers of the uninterrupted one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def stream(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """Return the generator for one purpose, e.g. ``stream(seed, "explore", round, client)``.

    Args:
        seed: Seed of the run.
        purpose: Name of the use; different names give independent streams.
        keys: Further numbers that separate streams, such as round and client. One purpose always
            has the same number of keys: a last key of 0 gives the stream without it.
    """
    entropy = [seed, zlib.crc32(purpose.encode()), *keys]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


@contextmanager
def torch_seeded(seed: int, purpose: str, *keys: int) -> Iterator[None]:
    """Seed torch's global generator inside the block (e.g. for initial weights); restore it after.

    Arguments as in `stream`.
    """
    number = int(stream(seed, purpose, *keys).integers(2**62))
    with torch.random.fork_rng(devices=[]):
        if torch.get_default_device().type == "cpu":
            # manual_seed also notes the call for each kind of GPU, with a stack trace that it keeps
            torch.default_generator.manual_seed(number)
        else:
            torch.manual_seed(number)
        yield
