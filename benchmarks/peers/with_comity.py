"""Comity as a contender, and the order of batches, which is Comity's own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import comity
from benchmarks.peers.contender import Clock
from benchmarks.peers.tasks import SEED, Federation, Loss, Task
from comity.configuration import configure
from comity.core.phases import Batch
from comity.core.threads import limited
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.learners.supervised.client_data import ClientData
from comity.problems import DataProblem, Objective, Samples, register

CHUNK = 10  # Comity's default


@dataclass(frozen=True, kw_only=True)
class TaskProblem(DataProblem):
    """A task as a problem of Comity, whose samples lie client after client."""

    task: Task
    folder: Path
    validated: bool
    """Whether the spare samples are for validation, or only one of them, which costs nothing."""

    def samples(self) -> Samples:
        return _samples(self.task, self.folder)

    def network(self, samples: Samples) -> nn.Module:
        return Federation(self.task, self.folder).network()

    def losses(self, outputs: Tensor, batch: Batch) -> Tensor:
        return Loss(self.task.kind)(outputs, batch["label"]).reshape(1)

    def scores(self, outputs: Tensor, batch: Batch) -> Tensor:
        table = self.task.kind == "table"
        guesses = outputs.squeeze(-1) > 0 if table else outputs.argmax(dim=-1)
        weight = batch["weight"]
        return ((guesses == batch["label"]) * weight).sum().reshape(1) / weight.sum()

    def constant(self, batch: Batch) -> Tensor:
        if self.task.kind == "table":
            return (batch["label"].mean() - 0.5).reshape(1)
        return torch.bincount(batch["label"], minlength=10).float()

    def partition(self, samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
        rows, share = self.task.rows, self.task.rows + self.task.spare
        parts = []
        for first in range(0, self.task.clients * share, share):
            spare = np.arange(first + rows, first + share)
            validation = spare[:-1] if self.validated else spare[:1]
            parts.append(ClientRows(np.arange(first, first + rows), validation, spare[-1:]))
        return parts


@cache
def _samples(task: Task, folder: Path) -> Samples:
    federation = Federation(task, folder)
    clients = [federation.read_client(client) for client in range(task.clients)]
    inputs, labels = (torch.cat(part) for part in zip(*clients, strict=True))
    strata = np.zeros(len(labels), dtype=np.int64)
    return Samples({"inputs": inputs, "label": labels}, strata, {})


def problem(task: Task, folder: Path, validated: bool) -> TaskProblem:
    """Return a task as a problem that is known by its name from now on."""
    made = TaskProblem(
        name="peers-task",
        title="Made-up samples",
        objectives=(Objective("accuracy", "share", "right answers"),),
        reference_point=(0.0,),
        task=task,
        folder=folder,
        validated=validated,
    )
    register(made)
    return made


def settings(task: Task, rounds: int, workers: int, compiled: bool = False) -> dict[str, Any]:
    """Return the settings of a run.

    With two workers, each has at least one chunk of clients. Compiled steps are for all clients of
    a worker at once: every chunk would be compiled for itself.
    """
    share = task.clients // workers
    return {
        "algorithm": "fedavg",
        "clients": task.clients,
        "chunk": share if compiled else min(CHUNK, share),
        "rounds": rounds,
        "seed": SEED,
        "supervised": {
            "local_steps": task.steps,
            "batch_size": task.batch,
            "learning_rate": task.rate,
            "optimiser": task.optimiser,
            "normalise": "none",
            "compile": "yes" if compiled else "no",
        },
    }


def write_order(task: Task, folder: Path, rounds: int) -> None:
    """Write the rows of the batches that Comity's clients draw (rounds, clients, steps, batch)."""
    made = problem(task, folder, validated=False).partitioned(task.clients, SEED, "", "")
    clients = tuple(range(task.clients))
    data = ClientData(made, clients, SEED, task.batch)
    drawn = [
        data.batches(np.arange(task.clients), task.steps, "batches", round)
        for round in range(1, rounds + 1)
    ]
    first = torch.arange(task.clients).mul(task.rows + task.spare)[:, None, None]
    order = torch.stack([rows - first for rows in drawn])
    np.savez(folder / "order.npz", order=order.numpy().astype(np.int32))


def engine(
    federation: Federation, rounds: int, workers: int, clock: Clock, compiled: bool = False
) -> Mapping[str, Tensor]:
    """Run whole rounds: selection, delivery, training, messages, checks, mixing and records."""
    task = federation.task
    made = problem(task, federation.folder, validated=False)
    configuration = configure({"problem": made.name, **settings(task, rounds, workers, compiled)})
    with limited(1), EmbeddedEngine(configuration, workers) as embedded:
        server = Server(configuration)
        for _ in RoundLoop(embedded, server).rounds():
            clock.round_done(_model(server))
        return _model(server)


def compiled_engine(
    federation: Federation, rounds: int, workers: int, clock: Clock
) -> Mapping[str, Tensor]:
    """Run the same with compiled steps."""
    return engine(federation, rounds, workers, clock, compiled=True)


def whole_run(
    federation: Federation, rounds: int, workers: int, clock: Clock
) -> Mapping[str, Tensor]:
    """Call `comity.run`: also two validations per round, history, checkpoints; then a report."""
    made = problem(federation.task, federation.folder, validated=True)
    with tempfile.TemporaryDirectory() as parent:
        run = comity.run(
            made,
            out=Path(parent) / "run",
            workers=workers,
            on_round=lambda event: clock.round_done(),
            keep="last",
            **settings(federation.task, rounds, workers),
        )
        return load_file(run.path / "models" / "client-0.safetensors")


def _model(server: Server) -> dict[str, Tensor]:
    return {name: tensor[0] for name, tensor in server.server_models()[0].tensors.items()}
