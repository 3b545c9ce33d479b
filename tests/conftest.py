"""Settings shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

# Several tests run at once on few cores, and bits must not depend on how many threads there are.
torch.set_num_threads(1)

DRAWING = [
    *("write_report", "write_comparison_report", "write_search_report", "write_searches_report"),
    "write_tuning_report",
]
"""Functions of `comity.report` that draw what was executed."""


@pytest.fixture(autouse=True, scope="session")
def _small_machine() -> Iterator[None]:
    """Make this a machine of one core whose disk is quick.

    Commands then start no processes unless a test asks for some, each of which would import torch,
    and files of tests need not survive a power cut.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """Execution without reports, which other tests draw: they take longer than short runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in DRAWING:
            patch.setattr(f"comity.report.{name}", lambda *_: None)
        yield
