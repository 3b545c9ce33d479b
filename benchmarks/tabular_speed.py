"""Tabular federated training: a fleet against a plain loop over clients, and against Flower.

All sides train the same clients: 3,900 random rows of 100 numbers each, a network 100-64-32-1,
two objectives (cross entropy; the gap between two attribute values) weighted by preference, batches
of 256, a new Adam every round, then the mean of all models (see `flower_referee`). Comity runs
whole rounds: selection, delivery, receipt, training, messages, checks, mixing and records; once as
usual, with two validations per round, and once without them, as the others do. Times are
CPU times of one thread per client and round; ratios compare figures taken next to each other, in
turns, because machines are busy.

    python -m benchmarks.tabular_speed [--repeats N] [--rounds N] [--no-flower] [--cases 10x25,…]
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks import flower_referee
from benchmarks.flower_referee import BATCH, LEARNING_RATE, ROWS
from benchmarks.tabular_referees import data_loader_loop, flower, plain_loop, processor, spread
from comity.configuration import configure
from comity.core.phases import Batch
from comity.core.threads import limited
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems import DataProblem, Objective, Samples, register


def problem(clients: int) -> DataProblem:
    """Return the referees' clients as a problem, with a tenth more rows for validation and test."""
    share = ROWS + 400
    tables = [flower_referee.client_data(client, share) for client in range(clients)]
    names = ("inputs", "label", "group")
    columns = dict(zip(names, (torch.cat(part) for part in zip(*tables, strict=True)), strict=True))
    samples = Samples(columns, np.zeros(clients * share, dtype=np.int64), {})
    return DataProblem(
        name=f"made-up-{clients}",
        title="Made-up rows",
        objectives=(Objective("accuracy", "share", ""), Objective("fairness", "1 - gap", "")),
        reference_point=(0.0, 0.0),
        samples=lambda: samples,
        network=_network,
        losses=losses,
        scores=lambda outputs, batch: 1 - losses(outputs, batch),
        constant=lambda batch: torch.zeros(1),
    )


def _network(samples: Samples) -> nn.Module:
    return flower_referee.network()


def losses(outputs: Tensor, batch: Batch) -> Tensor:
    """Return the referees' two objectives, for samples of any weight."""
    logits, weight = outputs.squeeze(-1), batch["weight"]
    entropy = F.binary_cross_entropy_with_logits(logits, batch["label"], weight, reduction="sum")
    entropy = entropy / weight.sum()
    positives, first = (1 + torch.tanh(logits)) / 2, batch["group"] * weight
    second = weight - first
    rates = [(positives * group).sum() / group.sum().clamp(min=1) for group in (first, second)]
    return torch.stack([entropy, (rates[0] - rates[1]).abs() + 0.1 * entropy])


class Ours:
    """A federation after its first rounds, ready for more."""

    def __init__(self, clients: int, local_steps: int, compiled: bool, validated: bool) -> None:
        preferences = [flower_referee.client_weights(i, clients) for i in range(clients)]
        self._clients, self._validated = clients, validated
        self._configuration = configure(
            {
                "problem": register(problem(clients)).name,
                "algorithm": "fedavg",
                "clients": clients,
                "chunk": clients,
                "rounds": 100_000,
                "preferences": [list(weights) for weights in preferences],
                "supervised": {
                    "local_steps": local_steps,
                    "batch_size": BATCH,
                    "learning_rate": LEARNING_RATE,
                    "normalise": False,
                    "compile": "yes" if compiled else "no",
                },
            }
        )
        self._engine = EmbeddedEngine(self._configuration)
        self._loop = RoundLoop(self._engine, Server(self._configuration)).rounds()
        started = time.perf_counter()
        self.run(2)
        self.startup = time.perf_counter() - started

    def run(self, rounds: int) -> float:
        """Run some rounds and return CPU seconds per client and round."""
        unknown = np.full((self._clients, 2), np.nan)
        skipped = mock.patch.object(Clients, "_validate", return_value=unknown)
        with limited(1):
            if not self._validated:
                skipped.start()
            started = time.process_time()
            for _ in range(rounds):
                next(self._loop)
            spent = time.process_time() - started
            if not self._validated:
                skipped.stop()
        return spent / (rounds * self._clients)


def measured(clients: int, local_steps: int, rounds: int, repeats: int) -> dict[str, list[float]]:
    """Return CPU seconds per client and round of every contender, in turns."""
    ours = {
        "fleet, compiled": Ours(clients, local_steps, compiled=True, validated=False),
        "fleet": Ours(clients, local_steps, compiled=False, validated=False),
        "fleet with validation": Ours(clients, local_steps, compiled=False, validated=True),
    }
    times: dict[str, list[float]] = {
        "plain loop": [],
        "DataLoader loop": [],
        **{n: [] for n in ours},
    }
    for _ in range(repeats):
        times["plain loop"].append(plain_loop(clients, rounds, local_steps))
        times["DataLoader loop"].append(data_loader_loop(clients, rounds, local_steps))
        for name, federation in ours.items():
            times[name].append(federation.run(rounds))
    print(f"compiling took {ours['fleet, compiled'].startup:.0f} s")
    return times


def shown(title: str, times: dict[str, list[float]], flowers: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in ("", "CPU ms, median", "least to most", "plain loop / it", "Flower / it"):
        table.add_column(heading, justify="left" if not heading else "right")
    rows = dict(times)
    if flowers:
        rows["Flower"] = [run["cpu_seconds_per_client_round"] for run in flowers]
    for name, seconds in rows.items():
        ratios = [p / s for p, s in zip(times["plain loop"], seconds, strict=False)]
        others = median(rows["Flower"]) / median(seconds) if flowers else None
        table.add_row(
            name,
            f"{1000 * median(seconds):.3f}",
            f"{1000 * min(seconds):.3f} to {1000 * max(seconds):.3f}",
            spread(ratios),
            "–" if others is None else f"{others:.1f}x",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--no-flower", action="store_true")
    parser.add_argument("--cases", default="10x25,10x1,50x25", help="clients x local steps")
    arguments = parser.parse_args()
    console = Console()
    console.print(processor())
    for case in arguments.cases.split(","):
        clients, local_steps = map(int, case.split("x"))
        rounds = arguments.rounds if local_steps > 1 else 5 * arguments.rounds
        times = measured(clients, local_steps, rounds, arguments.repeats)
        flowers: list[dict[str, Any]] = []
        if clients == 10 and not arguments.no_flower:
            for _ in range(arguments.repeats):
                run = flower(clients, rounds, local_steps)
                if isinstance(run, str):
                    console.print(run)
                    break
                flowers.append(run)
        title = f"{clients} clients, {local_steps} local steps: CPU time per client and round"
        console.print(shown(title, times, flowers))
        for run in flowers:
            console.print(f"Flower's start-up: {run['startup_seconds']:.0f} s")


if __name__ == "__main__":
    main()
