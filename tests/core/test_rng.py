"""Random streams depend on (seed, purpose, keys) and on nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from comity.core.rng import stream, torch_seeded


def draws(*name: object) -> list[int]:
    return stream(*name).integers(2**62, size=4).tolist()


def test_a_stream_is_numpys_pcg64_of_seed_checksum_and_keys():
    """0xCBF43926 is the published check value of CRC-32, that of the text 123456789."""
    reference = np.random.Generator(np.random.PCG64(np.random.SeedSequence([7, 0xCBF43926, 2])))
    assert draws(7, "123456789", 2) == reference.integers(2**62, size=4).tolist()


def test_a_stream_made_again_starts_again():
    first = stream(1, "batches", 3)
    first.random(1000)
    assert draws(1, "batches", 3) == draws(1, "batches", 3)


@pytest.mark.parametrize(
    "other",
    [(2, "batches", 3, 4), (1, "explore", 3, 4), (1, "batches", 4, 3), (1, "batches", 3), (1, "")],
    ids=str,
)
def test_seed_purpose_and_every_key_separate_streams(other):
    mine, theirs = stream(1, "batches", 3, 4).random(1000), stream(*other).random(1000)
    assert not np.isin(mine, theirs).any()
    assert abs(np.corrcoef(mine, theirs)[0, 1]) < 0.15


def test_streams_neither_use_nor_disturb_global_generators():
    before = draws(1, "batches")
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    expected = random.random(), np.random.random(), torch.rand(1).item()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    assert draws(1, "batches") == before
    assert (random.random(), np.random.random(), torch.rand(1).item()) == expected


def seeded(*name: object) -> list[float]:
    with torch_seeded(*name):
        return torch.rand(3).tolist()


def test_torch_draws_from_the_stream_inside_and_goes_on_as_before_outside():
    torch.manual_seed(0)
    expected = torch.rand(2).tolist()
    torch.manual_seed(0)
    outside = [torch.rand(1).item()]
    inside = seeded(1, "initial model")
    outside.append(torch.rand(1).item())
    assert outside == expected
    torch.manual_seed(99)
    assert seeded(1, "initial model") == inside
    assert seeded(2, "initial model") != inside
    assert seeded(1, "initial model", 1) != inside


def test_a_last_key_of_zero_is_no_key():
    """NumPy pads seeds with zeros, so one purpose must always have the same number of keys."""
    assert draws(1, "batches", 3, 0) == draws(1, "batches", 3)


def test_torchs_generator_is_restored_after_an_error():
    torch.manual_seed(0)
    expected = torch.rand(1).item()
    torch.manual_seed(0)
    with pytest.raises(RuntimeError), torch_seeded(1, "x"):
        torch.rand(5).reshape(2)
    assert torch.rand(1).item() == expected


def test_seeding_leaves_nothing_behind_for_gpus(monkeypatch):
    """A network with dropout is seeded per step: torch keeps a stack trace of each ``manual_seed``.

    The numbers are those of ``manual_seed`` all the same.
    """
    number = int(stream(5, "noise", 1).integers(2**62))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        expected = torch.rand(3).tolist()
    monkeypatch.setattr(torch, "manual_seed", lambda number: pytest.fail("noted for GPUs"))
    assert seeded(5, "noise", 1) == expected
