"""Runs to report on: one real and small, others with a history made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from histories import Entry, entry

import comity
from comity.configuration import configure
from comity.execution import summarise
from comity.runs import Run


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A real run of FedPref, small enough for every test session."""
    return comity.run(
        "deep-sea-treasure",
        algorithm="fedpref",
        clients=4,
        rounds=3,
        guard=True,
        dqn={"local_steps": 64, "learning_starts": 16},
        out=tmp_path_factory.mktemp("real") / "run",
    )


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Run]:
    """Write a finished run whose final vectors and history are known."""

    def make(
        vectors: Sequence[Sequence[float]],
        history: Sequence[Entry] | None = None,
        last: Sequence[Sequence[float]] | None = None,
        name: str = "made",
        **settings: Any,
    ) -> Run:
        kept = np.array(vectors, dtype=float)
        values = {"problem": "deep-sea-treasure", "clients": len(kept), "rounds": 2, **settings}
        run = Run.create(tmp_path / name, configure(values))
        for line in history or [entry(1, kept), entry(2, kept), entry(3, kept)]:
            run.append_history(line)
        final = kept if last is None else np.array(last, dtype=float)
        run.save_results(summarise(run.configuration, kept, final, run.history), 1.0)
        return run

    return make
