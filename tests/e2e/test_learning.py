"""Does it learn? Long, so `make test-slow` runs it."""

from __future__ import annotations

import numpy as np
import pytest

import comity


@pytest.mark.slow
def test_fedpref_serves_its_clients(tmp_path):
    """Twenty clients, 14,000 steps each: the published regret is 2.31, doing nothing costs 60."""
    run = comity.run("deep-sea-treasure", seed=12, out=tmp_path / "run")
    assert run.results["metrics"]["mean_regret"] <= 2.31
    spent = run.results["environment_steps"]
    assert sum(spent.values()) <= 20 * (14_000 + 16 + 200)


@pytest.mark.slow
def test_lunar_lander_gets_better(tmp_path):
    """A short run of few clients beats falling freely by far for those who want to land."""
    run = comity.run(
        "lunar-lander",
        clients=3,
        rounds=6,
        chunk=3,
        preferences=[[0.4, 0.4, 0.1, 0.1], [0.3, 0.5, 0.1, 0.1], [0.5, 0.3, 0.1, 0.1]],
        out=tmp_path / "run",
    )
    trivial = run.results["trivial"]["mean_scalarised"]
    assert run.results["metrics"]["mean_scalarised"] > trivial + 10


@pytest.mark.slow
def test_minecart_runs_past_its_random_steps(tmp_path):
    """Nothing moves, and nothing splits, before the first update."""
    run = comity.run(
        "minecart-deterministic",
        clients=2,
        rounds=4,
        chunk=2,
        fedpref={"threshold": 1e9, "patience": 1},
        dqn={"local_steps": 2000, "learning_starts": 4000},
        out=tmp_path / "run",
    )
    assert [len(entry["clusters"]) for entry in run.history[:3]] == [1, 1, 2]
    assert np.isfinite(run.results["metrics"]["mean_regret"])
