"""A tabular federated training in Flower's simulation (Ray), and the CPU time it takes.

Stand-alone: Flower pins its dependencies tightly, so this runs in an environment of its own
(`tabular_referees.flower` makes it) and prints one JSON object. Each client trains a small network
with Adam on two weighted objectives; the server averages the models (FedAvg) and evaluates nothing.
The data are random: the speed depends on their shape alone.

Round 0 is not measured. It starts Ray and its actors, imports torch in them, makes all data (kept
from then on) and takes one step. Clients are stateless, as usual in Flower: a new model and a new
optimiser every round. CPU time is user and system time of this process and all below it.

    python flower_referee.py [--clients N] [--rounds N] [--local-steps N]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message
    from flwr.serverapp import Grid

ROWS, INPUTS, HIDDEN, BATCH = 3900, 100, (64, 32), 256
LEARNING_RATE = 1e-3
ACTORS = 2

Batch = tuple[Tensor, Tensor, Tensor]
"""Rows, labels (0 or 1) and groups (0 or 1)."""


def network() -> nn.Sequential:
    """Return the model of every client: one logit per row."""
    widths = (INPUTS, *HIDDEN)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


@cache
def client_data(client: int, rows: int = ROWS) -> Batch:
    """Return all data of a client."""
    generator = torch.Generator().manual_seed(client)
    x = torch.randn(rows, INPUTS, generator=generator)
    labels, groups = torch.randint(2, (2, rows), generator=generator).float()
    return x, labels, groups


def client_weights(client: int, clients: int) -> tuple[float, float]:
    """Return a client's weights of the two objectives."""
    share = (client + 0.5) / clients
    return share, 1 - share


def random_batches(data: Batch) -> Iterator[Batch]:
    """Yield batches drawn by index, without end."""
    x, labels, groups = data
    while True:
        index = torch.randint(len(x), (BATCH,))
        yield x[index], labels[index], groups[index]


def loss(logits: Tensor, labels: Tensor, groups: Tensor, weights: tuple[float, float]) -> Tensor:
    """Return the weighted sum of cross entropy and the (relaxed) gap in positives."""
    entropy = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    positives = (1 + torch.tanh(logits)) / 2
    size = groups.sum()
    first = (positives * groups).sum() / size.clamp(min=1)
    second = (positives * (1 - groups)).sum() / (len(groups) - size).clamp(min=1)
    return weights[0] * entropy + weights[1] * ((first - second).abs() + 0.1 * entropy)


def train(
    model: nn.Module, batches: Iterator[Batch], weights: tuple[float, float], steps: int
) -> None:
    """Take the local steps of a round."""
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for _ in range(steps):
        x, labels, groups = next(batches)
        optimiser.zero_grad()
        loss(model(x).squeeze(1), labels, groups, weights).backward()
        optimiser.step()


def answer(message: Message, context: Context) -> Message:
    """Do a client's part of a round."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    started = time.process_time()
    torch.set_num_threads(1)
    client = int(context.node_config["partition-id"])
    clients = int(context.node_config["num-partitions"])
    steps = int(message.content["config"]["local-steps"])
    if message.content["config"]["server-round"] == 1:  # not measured
        steps = 1
        for other in range(clients):
            client_data(other)
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model, random_batches(client_data(client)), client_weights(client, clients), steps)
    metrics = {"num-examples": ROWS, "seconds": time.process_time() - started}
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord(metrics)}
    return Message(content=RecordDict(content), reply_to=message)


def cpu_seconds() -> dict[int, tuple[str, float]]:
    """Return kind and CPU seconds of each process of the tree, by its id."""
    import psutil

    main = psutil.Process()
    result = {main.pid: ("server", sum(main.cpu_times()[:2]))}
    for process in main.children(recursive=True):
        try:
            actor = any("ClientAppActor" in word for word in process.cmdline())
            seconds = sum(process.cpu_times()[:2])
        except psutil.Error:  # the process has just ended
            continue
        result[process.pid] = ("actors" if actor else "ray", seconds)
    return result


def simulate(
    clients: int,
    rounds: int,
    local_steps: int,
    *,
    answers: Callable[[Message, Context], Message] = answer,
    model: Callable[[], nn.Module] = network,
    actors: int = ACTORS,
    after_round: Callable[[ArrayRecord], None] = lambda arrays: None,
) -> dict[str, Any]:
    """Run the simulation, of this training or of another one, and measure it.

    Args:
        answers: Does a client's part of a round.
        model: Returns the model from which all start.
        actors: Number of Ray's actors, in which clients train.
        after_round: Called with the global model after each round, the first included.
    """
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    warnings.simplefilter("ignore")
    import flwr
    import psutil
    from flwr.app import ArrayRecord, ConfigRecord
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    marks: list[tuple[float, dict[int, tuple[str, float]]]] = []
    training: list[float] = []
    failures = 0

    class Measured(FedAvg):
        def configure_train(
            self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
        ) -> Iterable[Message]:
            if server_round == 2:
                marks.append((time.time(), cpu_seconds()))
            return super().configure_train(server_round, arrays, config, grid)

        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
            nonlocal failures
            replies = list(replies)
            done = [reply for reply in replies if reply.has_content()]
            failures += clients - len(done)
            if server_round > 1:
                training.extend(reply.content["metrics"]["seconds"] for reply in done)
            arrays, metrics = super().aggregate_train(server_round, replies)
            after_round(arrays)
            return arrays, metrics

    server, client = ServerApp(), ClientApp()
    client.train()(answers)

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        Measured(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients).start(
            grid=grid,
            initial_arrays=ArrayRecord(model().state_dict()),
            num_rounds=rounds + 1,
            train_config=ConfigRecord({"local-steps": local_steps}),
        )
        marks.append((time.time(), cpu_seconds()))

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=clients,
        backend_config={
            "init_args": {"num_cpus": actors, "logging_level": "ERROR", "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    if failures:
        raise SystemExit(f"{failures} client rounds failed")
    (started, before), (ended, after) = marks
    parts = dict.fromkeys(("server", "actors", "ray"), 0.0)
    for process, (part, seconds) in after.items():
        parts[part] += seconds - before.get(process, (part, 0.0))[1]
    count = clients * rounds
    return {
        "flower": flwr.__version__,
        "clients": clients,
        "rounds": rounds,
        "local_steps": local_steps,
        "startup_seconds": started - psutil.Process().create_time(),
        "startup_cpu_seconds": sum(seconds for _, seconds in before.values()),
        "cpu_seconds_per_client_round": sum(parts.values()) / count,
        "cpu_seconds_per_client_round_by_part": {
            part: seconds / count for part, seconds in parts.items()
        },
        "training_cpu_seconds_per_client_round": sum(training) / count,
        "wall_seconds_per_round": (ended - started) / rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--local-steps", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(simulate(arguments.clients, arguments.rounds, arguments.local_steps)))


if __name__ == "__main__":
    # From here, not from __main__: Ray then passes functions by name and actors keep their data.
    from flower_referee import main as run

    run()
