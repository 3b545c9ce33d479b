"""A small crash matrix; ``python -m benchmarks.crashes`` is the large one."""

from __future__ import annotations

import pytest
from benchmarks.crashes import measure


def test_killed_at_any_moment_a_run_ends_with_the_same_bytes():
    for tally in measure("run", workers=1, trials=1, seed=3):
        assert not tally.faults, tally.faults
        assert tally.equal == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["run", "compare", "search", "pretrain"])
def test_the_whole_matrix(kind, workers):
    for tally in measure(kind, workers=workers, trials=3, seed=4):
        assert not tally.faults, tally.faults
        assert tally.equal == 3
