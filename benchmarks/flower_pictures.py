"""Federated training of the papers' CNN in Flower's simulation (Ray), and the CPU time it takes.

As `flower_referee`: stand-alone, one JSON object, a first round that is not measured.
Each client goes once through its pictures with plain SGD; the server averages and evaluates
nothing. The pictures are made up, 175 of 3 x 32 x 32 per client: the speed depends on their shape.

    python flower_pictures.py [--clients N] [--rounds N] [--local-steps N]
"""

from __future__ import annotations

import argparse
import json
import time
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from flower_referee import simulate

if TYPE_CHECKING:
    from flwr.app import Context, Message

PICTURES, SHAPE, CLASSES, BATCH = 175, (3, 32, 32), 10, 10
LEARNING_RATE = 0.05


def network() -> nn.Sequential:
    """Return the CNN of the papers, the same as `comity.problems.networks.cnn`."""
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
    )


@cache
def client_data(client: int) -> tuple[Tensor, Tensor]:
    """Return all pictures of a client and their classes."""
    generator = torch.Generator().manual_seed(client)
    pictures = torch.randint(256, (PICTURES, *SHAPE), generator=generator, dtype=torch.uint8)
    return pictures, torch.randint(CLASSES, (PICTURES,), generator=generator)


def train(model: nn.Module, pictures: Tensor, labels: Tensor, steps: int) -> None:
    """Take the local steps of a round, in batches of a random order."""
    descent = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    for rows in torch.randperm(len(pictures)).split(BATCH)[:steps]:
        outputs = model(pictures[rows].float() / 127.5 - 1)
        descent.zero_grad()
        nn.functional.cross_entropy(outputs, labels[rows]).backward()
        descent.step()


def answer(message: Message, context: Context) -> Message:
    """Do a client's part of a round."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    started = time.process_time()
    torch.set_num_threads(1)
    client, config = int(context.node_config["partition-id"]), message.content["config"]
    first = config["server-round"] == 1  # not measured
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, *client_data(client), 1 if first else int(config["local-steps"]))
    metrics = {"num-examples": PICTURES, "seconds": time.process_time() - started}
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)}
    return Message(content=RecordDict(content), reply_to=message)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--local-steps", type=int, default=-(-PICTURES // BATCH))
    arguments = parser.parse_args()
    size = arguments.clients, arguments.rounds, arguments.local_steps
    print(json.dumps(simulate(*size, answers=answer, model=network)))


if __name__ == "__main__":
    # From here, not from __main__: Ray then passes functions by name and actors keep their data.
    from flower_pictures import main as run

    run()
