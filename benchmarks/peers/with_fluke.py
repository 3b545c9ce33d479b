"""fluke as a contender, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:  # built for CUDA, beside a torch for CPUs: two names are missed on import
    for name in ("nms", "qnms"):  # which fluke imports and FedAvg does not use
        torch.library.define(f"torchvision::{name}", "(Tensor b, Tensor s, float t) -> Tensor")

from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.data import FastDataLoader
from fluke.server import Server
from fluke.utils import FederationObserver
from torch import Tensor

from benchmarks.peers.contender import Clock
from benchmarks.peers.tasks import CLASSES, Federation, Loss


class Ordered(FastDataLoader):
    """fluke's loader of a client's samples, with the order of the task in place of a shuffle."""

    def __init__(self, federation: Federation, client: int) -> None:
        self._federation, self._number, self._round = federation, client, 0
        task = federation.task
        inputs, labels = federation.client(client)
        super().__init__(
            inputs[: task.rows],
            labels[: task.rows],
            num_labels=2 if task.kind == "table" else CLASSES,
            batch_size=task.batch,
            shuffle=False,
        )

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        self._round += 1
        inputs, labels = self.tensors
        for rows in self._federation.batches(self._round, self._number):
            yield inputs[rows], labels[rows]


class RoundEnds(FederationObserver):
    """Tell the clock about rounds."""

    def __init__(self, clock: Clock, server: Server) -> None:
        self._clock, self._server = clock, server

    def end_round(self, round: int) -> None:
        self._clock.round_done(self._server.model.state_dict())


def federate(federation: Federation, rounds: int, workers: int, clock: Clock) -> dict[str, Tensor]:
    """Run fluke's FedAvg with clients that keep nothing from round to round, and no evaluation."""
    task = federation.task
    federation.load_all()
    environment = FlukeENV()
    environment.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    optimiser = DDict(name="Adam" if task.optimiser == "adam" else "SGD", lr=task.rate)
    clients = [
        Client(
            index=client,
            train_set=Ordered(federation, client),
            test_set=None,
            optimizer_cfg=OptimizerConfigurator(optimiser),
            loss_fn=Loss(task.kind),
            local_epochs=1,
            persistency=False,
        )
        for client in range(task.clients)
    ]
    server = Server(federation.network(), None, clients, weighted=True)
    algorithm = FedAVG(task.clients, None, None, clients=clients, server=server)
    algorithm.set_callbacks(RoundEnds(clock, server))
    algorithm.run(rounds, 1.0, finalize=False)
    return server.model.state_dict()
