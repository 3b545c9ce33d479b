"""One contender on one task, in a process of its own, measured from inside.

    python -m benchmarks.peers.contender NAME TASK FOLDER ROUNDS WORKERS STARTED

STARTED is the time at which the process was asked for. The models after the first and the last
round go to ``first.npz`` and ``last.npz`` in the current directory, the measures to
``measures.json``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers import process_tree
from benchmarks.peers.tasks import TASKS, Federation

CONTENDERS = {
    "comity": ("with_comity", "engine"),
    "comity-compiled": ("with_comity", "compiled_engine"),
    "comity-run": ("with_comity", "whole_run"),
    "plain-loop": ("loops", "plain"),
    "pfllib-like-loop": ("loops", "pfllib_like"),
    "flower": ("with_flower", "federate"),
    "pfl": ("with_pfl", "federate"),
    "fluke": ("with_fluke", "federate"),
}
"""Module and function of each contender."""
PARALLEL = ("comity", "comity-run", "flower", "pfl")
"""Contenders that are also run with two workers, processes that share the clients."""
PACKAGES = ("comity", "torch", "numpy", "flwr", "ray", "pfl", "fluke-fl")


class Clock:
    """Wall and CPU time of this process and those below it, at the end of the rounds.

    Args:
        rounds: Number of rounds, at least two.
        started: Time at which the process was asked for.
    """

    def __init__(self, rounds: int, started: float) -> None:
        self._rounds, self._started, self._done = rounds, started, 0
        self._marks: list[tuple[float, float]] = []
        self.first_model: dict[str, np.ndarray] = {}
        """The global model after the first round; empty if it was not shown."""

    def round_done(self, model: Mapping[str, Tensor] | None = None) -> None:
        """Note the end of a round. Only the first and the last are looked at, which takes time.

        Args:
            model: The global model after the round, where the contender shows it.
        """
        self._done += 1
        if self._done == 1 and model is not None:
            self.first_model = arrays_of(model)
        if self._done in (1, self._rounds):
            self._marks.append((time.time(), process_tree.cpu_seconds(os.getpid())))

    def measures(self) -> dict[str, float]:
        """Return seconds per round, and of the start-up: up to the first round's end, less one."""
        (wall, cpu), (last_wall, last_cpu) = self._marks
        rounds = self._rounds - 1
        round_wall, round_cpu = (last_wall - wall) / rounds, (last_cpu - cpu) / rounds
        return {
            "wall_per_round": round_wall,
            "cpu_per_round": round_cpu,
            "startup_wall": max(0.0, wall - self._started - round_wall),
            "startup_cpu": max(0.0, cpu - round_cpu),
        }


def arrays_of(model: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return a copy of a model's weights, under the names of `tasks.network`."""
    prefix = "model." if all(name.startswith("model.") for name in model) else ""
    return {name.removeprefix(prefix): t.detach().clone().numpy() for name, t in model.items()}


def main() -> None:
    name, task, folder, rounds, workers, started = sys.argv[1:]
    module, function = CONTENDERS[name]
    torch.set_num_threads(1)
    clock = Clock(int(rounds), float(started))
    federate = getattr(importlib.import_module(f"benchmarks.peers.{module}"), function)
    federation = Federation(TASKS[task], Path(folder))
    weights = federate(federation, int(rounds), int(workers), clock)
    if os.environ.get("RANK", "0") != "0":  # started by torchrun, and not the first
        return
    np.savez("first.npz", **clock.first_model)
    np.savez("last.npz", **arrays_of(weights))
    measures: dict[str, Any] = {**clock.measures(), "versions": _versions()}
    Path("measures.json").write_text(json.dumps(measures))


def _versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


if __name__ == "__main__":
    # From here, not from __main__: other processes then find this module's classes by name.
    from benchmarks.peers.contender import main as run

    run()
