"""Clients that take no part in a round cost nothing, and rounds leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners.supervised.learner import Supervised
from tests.tiny import tiny

PEAKS = """
import json, resource, sys
import comity, comity.runs.execute
comity.runs.execute._CHECKPOINT_SECONDS = 0  # one in every round
peaks = []
def note(event):
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
comity.run(
    "usps-mlp", algorithm=sys.argv[1], clients=100, participation=0.1, rounds=50, seed=1,
    partition="pathological:2", out=sys.argv[2], on_round=note, evaluate_every=5,
    supervised={"local_steps": 2},
)
print(json.dumps(peaks))
"""


@pytest.mark.parametrize("algorithm", ["fedavg", "fedpac"])
def test_memory_does_not_grow_with_rounds(algorithm, tmp_path):
    command = [sys.executable, "-c", PEAKS, algorithm, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout.splitlines()[-1])
    assert len(peaks) == 50
    # ten clients' models are 1.4 MB: were they kept, 40 rounds would need 55 MB more
    assert peaks[-1] - peaks[9] < 30


def test_nobody_but_those_who_take_part_is_trained_or_judged(monkeypatch):
    seen = {"train": [], "evaluate": []}

    def counted(name, method):
        def call(self, fleet, rows, *others):
            seen[name] += [self._clients[row] for row in rows]
            return method(self, fleet, rows, *others)

        return call

    for name in seen:
        monkeypatch.setattr(Supervised, name, counted(name, getattr(Supervised, name)))
    settings = tiny(problem="tiny-people", algorithm="fedavg", clients=8, participation=0.25)
    for (record,) in RoundLoop(EmbeddedEngine(settings), Server(settings)).rounds():
        assert len(record.clients) == 2
        assert sorted(seen["train"]) == list(record.clients)
        assert set(seen["evaluate"]) == set(record.clients)
        for rows in seen.values():
            rows.clear()
