"""The federated tasks that all contenders train, as files.

Loaded in the environment of every contender, so it needs numpy and torch alone. A task's directory
has ``data.npz`` (each client's samples, the test samples, the initial weights) and ``order.npz``
(the rows of every batch of every round), so that all contenders can do the same steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.flower_referee import INPUTS
from benchmarks.flower_referee import network as table_network

SEED = 1
CLASSES, SIDE = 10, 32
TESTED = 2000  # samples on which final models are compared


@dataclass(frozen=True)
class Task:
    """FedAvg on made-up data: every client takes part in every round, with a new optimiser."""

    kind: Literal["table", "pictures"]
    """Rows of numbers with two classes and a small network, or pictures and a CNN."""
    clients: int
    rows: int
    """Samples of a client that are trained on."""
    spare: int
    """Further samples of a client, for contenders that validate."""
    batch: int
    steps: int
    """Steps of a client in a round."""
    optimiser: Literal["adam", "sgd"]
    rate: float
    rounds: int
    """Rounds that are measured by default, after one that is not."""


TASKS = {
    "table-10": Task("table", 10, 3900, 400, 256, 25, "adam", 1e-3, 10),
    "table-100": Task("table", 100, 3900, 400, 256, 25, "adam", 1e-3, 1),
    "pictures": Task("pictures", 20, 175, 25, 10, 18, "sgd", 0.05, 1),
}
"""Tasks by name. 18 batches of 10 are one pass over 175 pictures, begun anew for the last five."""


class Pixels(nn.Module):
    """Map from bytes to numbers between -1 and 1, the channels of a pixel side by side."""

    def forward(self, inputs: Tensor) -> Tensor:
        pixels = inputs.float() / 127.5 - 1
        return pixels.contiguous(memory_format=torch.channels_last)


def network(kind: str) -> nn.Sequential:
    """Return a fresh network: 100-64-32-1, or the CNN of the papers (878,538 parameters)."""
    if kind == "table":
        return table_network()
    return nn.Sequential(
        Pixels(),
        *(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
    )


class Loss(nn.Module):
    """Mean cross entropy of the outputs of `network`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if self.kind == "table":
            return nn.functional.binary_cross_entropy_with_logits(outputs.squeeze(-1), labels)
        return nn.functional.cross_entropy(outputs, labels)


def new_optimiser(task: Task, model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimiser of one client's round."""
    kind = torch.optim.Adam if task.optimiser == "adam" else torch.optim.SGD
    return kind(model.parameters(), lr=task.rate)


def write_data(task: Task, folder: Path) -> None:
    """Write the samples of all clients, the test samples and the initial weights.

    A row's label is the side of a plane on which it lies, a picture's the one of ten random
    pictures that it was made from; both with noise, and with a shift of each client's own.
    """
    draw = np.random.default_rng(SEED)
    torch.manual_seed(SEED)
    arrays = {f"initial/{name}": t.numpy() for name, t in network(task.kind).state_dict().items()}
    plane = draw.normal(size=INPUTS).astype(np.float32)
    pictures = draw.normal(size=(CLASSES, 3, SIDE, SIDE)).astype(np.float32)
    for client in [*map(str, range(task.clients)), "test"]:
        count = TESTED if client == "test" else task.rows + task.spare
        if task.kind == "table":
            shift = draw.normal(scale=0.3, size=INPUTS).astype(np.float32)
            inputs = draw.normal(size=(count, INPUTS)).astype(np.float32) + shift
            noise = draw.normal(scale=5.0, size=count)
            labels = (inputs @ plane + noise > 0).astype(np.float32)
        else:
            labels = draw.integers(CLASSES, size=count)
            noise = draw.normal(scale=2.0, size=(count, 3, SIDE, SIDE))
            light = draw.normal(scale=0.3)
            inputs = np.clip(25 * (pictures[labels] + noise + light) + 128, 0, 255).astype(np.uint8)
        arrays |= {f"inputs/{client}": inputs, f"labels/{client}": labels}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "data.npz", **arrays)


class Federation:
    """A task as it lies in a directory.

    Args:
        task: The task.
        folder: Its directory.
    """

    def __init__(self, task: Task, folder: Path) -> None:
        self.task = task
        self.folder = folder
        """Directory of the task."""
        self._client = cache(self.read_client)

    def network(self) -> nn.Sequential:
        """Return the network with the initial weights."""
        model = network(self.task.kind)
        names = list(model.state_dict())
        arrays = self._read(*(f"initial/{name}" for name in names))
        model.load_state_dict(dict(zip(names, arrays, strict=True)))
        return model

    def read_client(self, client: int | str) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of a client, spare ones last, read from the file."""
        inputs, labels = self._read(f"inputs/{client}", f"labels/{client}")
        return inputs, labels

    def _read(self, *names: str) -> list[Tensor]:
        with np.load(self.folder / "data.npz") as file:
            return [torch.from_numpy(file[name]) for name in names]

    def client(self, client: int | str) -> tuple[Tensor, Tensor]:
        """Return the same, kept in memory from the first call on."""
        return self._client(client)

    def load_all(self) -> None:
        """Read everything that training needs, so that no round has to."""
        self.batches(1, 0)
        for client in range(self.task.clients):
            self.client(client)

    def batches(self, round: int, client: int) -> Tensor:
        """Return the rows of a client's batches (steps x batch) in a round, counted from 1."""
        return _order(self.folder)[round - 1, client]

    def train(self, model: nn.Module, round: int, client: int) -> None:
        """Take a client's steps of a round in plain PyTorch, in place."""
        inputs, labels = self.client(client)
        loss, optimiser = Loss(self.task.kind), new_optimiser(self.task, model)
        for rows in self.batches(round, client):
            optimiser.zero_grad()
            loss(model(inputs[rows]), labels[rows]).backward()
            optimiser.step()

    @torch.no_grad()
    def accuracy(self, weights: Mapping[str, np.ndarray]) -> float:
        """Return the share of test samples that a model classifies rightly."""
        model = network(self.task.kind)
        model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
        inputs, labels = self.client("test")
        outputs = torch.cat([model(part) for part in inputs.split(200)])
        guesses = outputs.squeeze(-1) > 0 if self.task.kind == "table" else outputs.argmax(dim=1)
        return float((guesses == labels).float().mean())


@cache
def _order(folder: Path) -> Tensor:
    with np.load(folder / "order.npz") as file:
        return torch.from_numpy(file["order"]).long()


def digest(weights: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of a model's weights, in the order of their names."""
    sum_ = hashlib.sha256()
    for name in sorted(weights):
        sum_.update(name.encode() + np.ascontiguousarray(weights[name]).tobytes())
    return sum_.hexdigest()
