"""Flower's simulation as a contender: Ray, with as many actors as there are workers."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from benchmarks.flower_referee import simulate
from benchmarks.peers.contender import Clock
from benchmarks.peers.tasks import Federation, Task, network

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message


def federate(federation: Federation, rounds: int, workers: int, clock: Clock) -> dict[str, Tensor]:
    """Run Flower's FedAvg without evaluation; clients are stateless, their data stay in actors."""
    model: dict[str, Tensor] = {}

    def note(arrays: ArrayRecord) -> None:
        model.update(arrays.to_torch_state_dict())
        clock.round_done(model)

    task = federation.task
    simulate(
        task.clients,
        rounds - 1,  # it adds one of its own
        task.steps,
        answers=partial(answer, task, federation.folder),
        model=federation.network,
        actors=workers,
        after_round=note,
    )
    return model


@cache
def _federation(task: Task, folder: Path) -> Federation:
    """Return the task, read as a whole in the first round of an actor."""
    federation = Federation(task, folder)
    federation.load_all()
    return federation


def answer(task: Task, folder: Path, message: Message, context: Context) -> Message:
    """Do a client's part of a round."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    torch.set_num_threads(1)
    client = int(context.node_config["partition-id"])
    model = network(task.kind)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    round = int(message.content["config"]["server-round"])
    _federation(task, folder).train(model, round, client)
    metrics = MetricRecord({"num-examples": task.rows, "seconds": 0.0})
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}
    return Message(content=RecordDict(content), reply_to=message)
