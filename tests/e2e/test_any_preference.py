"""A policy for any preference through the command line: trained, judged, drawn, exported."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import comity as library
from comity.problems import find
from comity.runs.export import load_exported
from tests.e2e.conftest import TINY


def test_one_run_serves_any_preference(comity):
    out = comity.home / "run"
    tiny = [*TINY, "--clients", "2", "--rounds", "2"]
    comity("run", "deep-sea-treasure", "--algorithm", "conditioned-dqn", *tiny, "--out", out)
    results = json.loads((out / "results.json").read_text())
    served = results["spanned"]["served"]
    asked, returns = np.array(served["preferences"]), np.array(served["returns"])
    assert asked[:, 0].tolist() == pytest.approx(np.linspace(0, 1, 11).tolist())
    best = (asked @ find("deep-sea-treasure").front().T).max(axis=1)
    missed = best - (asked * returns).sum(axis=1)
    assert served["regret"]["per_preference"] == pytest.approx(missed.tolist(), abs=1e-4)
    assert served["regret"]["against"] == "known front"
    assert results["metrics"]["served_regret"] == pytest.approx(missed.mean(), abs=1e-4)
    assert results["metrics"]["served_regret"] > 0
    assert "regret over preferences" in (out / "report.html").read_text()
    history = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    assert any("validation_utility" in entry for entry in history)
    for name in ("spans", "response", "served"):
        assert (out / f"{name}.png").is_file()

    run = library.open(out)
    states = torch.rand(9, 2)
    for weights in ("0.3,0.7", "1,0"):
        policy = comity.home / f"{weights}.safetensors"
        comity("export", out, policy, "--client", 1, "--preference", weights)
        network = load_exported(policy)
        expected = run.model_for(1, [float(weight) for weight in weights.split(",")])
        torch.testing.assert_close(network(states), expected(states))
        assert network(states).shape == (9, 4)
    assert not torch.allclose(run.model_for(1, [0.3, 0.7])(states), expected(states))
    refused = comity("export", out, "x.safetensors", "--client", 1, "--preference", "1", code=2)
    assert "2 objectives (treasure, time), got 1 weights" in refused.stderr


def test_it_is_refused_where_it_cannot_learn(comity):
    refused = comity("run", "halfcheetah", "--algorithm", "conditioned-dqn", code=2)
    assert "environments with discrete actions; halfcheetah has none" in refused.stderr
