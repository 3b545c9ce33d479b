"""A tabular federated training by others: as a plain PyTorch loop, and in Flower's simulation.

All sides train the same clients the same way (see `flower_referee`): networks, objectives,
batch size, data shapes, a new Adam every round, then the mean of all models. A first round is not
measured. Time is CPU time; a busy machine still adds much to it, so compare figures taken
side by side.

    python -m benchmarks.tabular_referees [--clients N] [--rounds N] [--local-steps N ...]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import flower_referee
from benchmarks.flower_referee import BATCH, Batch
from benchmarks.peers.environments import last_line, python_for

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 1800
"""Seconds after which a simulation of Flower is stopped."""


def plain_loop(clients: int = 10, rounds: int = 20, local_steps: int = 1) -> float:
    """Return CPU seconds per client and round of a loop over clients, batches drawn by index."""
    return _loop(flower_referee.random_batches, clients, rounds, local_steps)


def data_loader_loop(clients: int = 10, rounds: int = 20, local_steps: int = 1) -> float:
    """Return CPU seconds per client and round of a loop over clients, a `DataLoader` each."""
    return _loop(_loaded_batches, clients, rounds, local_steps)


def _loaded_batches(data: Batch) -> Iterator[Batch]:
    """Yield batches epoch after epoch, without end."""
    loader = DataLoader(TensorDataset(*data), batch_size=BATCH, shuffle=True, drop_last=True)
    while True:
        yield from loader


def _loop(
    batches: Callable[[Batch], Iterator[Batch]],
    clients: int,
    rounds: int,
    local_steps: int,
) -> float:
    """Train client after client, then average their models."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = [flower_referee.client_data(client) for client in range(clients)]
        streams = [batches(table) for table in data]
        weights = [flower_referee.client_weights(client, clients) for client in range(clients)]
        models = [flower_referee.network() for _ in range(clients)]
        common = models[0].state_dict()
        started = 0.0
        for number in range(rounds + 1):
            if number == 1:
                started = time.process_time()
            for model, stream, weight in zip(models, streams, weights, strict=True):
                model.load_state_dict(common)
                flower_referee.train(model, stream, weight, local_steps)
            states = [model.state_dict() for model in models]
            common = {
                name: torch.stack([state[name] for state in states]).mean(0) for name in common
            }
        return (time.process_time() - started) / (clients * rounds)
    finally:
        torch.set_num_threads(threads)


def flower(
    clients: int = 10,
    rounds: int = 20,
    local_steps: int = 1,
    *,
    script: str = flower_referee.__file__,
) -> dict[str, Any] | str:
    """Return the output of `flower_referee`, or a sentence with the reason of its failure.

    The first call makes the environment that `peers` has for Flower (1.4 GB).

    Args:
        clients: Number of clients.
        rounds: Number of rounds.
        local_steps: Steps per client and round.
        script: Another script with the same options.
    """
    python, failure = python_for("flower", ROOT / ".venv-peers")
    if failure:
        return f"Flower: {failure}"
    command = [python, "-W", "ignore", script]
    options = {"--clients": clients, "--rounds": rounds, "--local-steps": local_steps}
    for option, value in options.items():
        command += [option, str(value)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f"Flower did not finish within {LONGEST} s."
    if done.returncode:
        return f"Flower failed: {last_line(done.stderr)}"
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def processor() -> str:
    """Return the name of the processor, and its number of cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    values = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    family = f"family {values.get('cpu family')}, model {values.get('model')}"
    name = f"{values['model name']} ({family})" if "model name" in values else platform.processor()
    return f"{name}, {os.cpu_count()} cores"


def spread(ratios: Sequence[float]) -> str:
    """Return the median of the ratios of several turns, and their range."""
    return f"{median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--local-steps", type=int, nargs="+", default=[1, 25])
    arguments = parser.parse_args()
    for steps in arguments.local_steps:
        size = (arguments.clients, arguments.rounds, steps)
        print(f"{steps} local steps, CPU ms per client and round")
        print(f"  plain loop: {1000 * plain_loop(*size):.2f}")
        print(f"  DataLoader loop: {1000 * data_loader_loop(*size):.2f}")
        print(f"  Flower: {json.dumps(flower(*size), indent=2)}")


if __name__ == "__main__":
    main()
