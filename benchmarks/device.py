"""Rounds on a device beside rounds on the CPU: their time, and how far their models differ.

Three federations (a table of 100 clients, pictures of 20 clients with a convolutional network, an
environment of 20 clients) run whole rounds: delivery, training, validation, checks and mixing. All
clients of the table and of the environment train as one stack. Times are wall times, because a
device works beside the processor, so the machine should be idle; the clock is read after the device
has finished all that it was asked. The first round is left out: it loads kernels and data.

After the last round the models of both devices are compared, and those of two runs on the device:
the latter should be equal in every bit.

    python -m benchmarks.device [--device cuda] [--rounds N] [--cases table,pictures,environment]

We have never run it on a GPU.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from comity.configuration import Configuration, configure
from comity.core.devices import CPU, check_device, placed, resolve
from comity.core.threads import limited
from comity.core.typing import FloatArray, NamedArrays
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import SimulatedLoop
from comity.federation.server import Server

CASES: dict[str, dict[str, Any]] = {
    "table": {
        "problem": "adult-gender-dp",
        "clients": 100,
        "chunk": 100,
        "supervised": {"local_steps": 25, "compile": "no"},
    },
    "pictures": {"problem": "usps", "clients": 20, "supervised": {"local_steps": 10}},
    "environment": {
        "problem": "deep-sea-treasure",
        "clients": 20,
        "chunk": 20,
        "dqn": {"local_steps": 500, "learning_starts": 100},
    },
}
"""Settings of the federations, all of FedPref, whose server compares all pairs of clients."""


class Outcome(NamedTuple):
    """Time of one run of a federation, and its final models."""

    milliseconds: float
    """Median time of a round, per client."""
    models: NamedArrays
    """The last models, client first."""
    vectors: FloatArray
    """Their test results."""


def main() -> None:
    """Print one line per federation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", help="cuda, cuda:1, mps, auto or cpu")
    parser.add_argument(
        "--rounds", type=int, default=6, help="rounds, the first of them unmeasured"
    )
    parser.add_argument("--cases", default=",".join(CASES), help="some of: " + ", ".join(CASES))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    device = resolve(arguments.device)
    check_device(device)
    table = Table(title=f"ms per client and round: cpu ({arguments.threads} threads), {device}")
    columns = ("federation", "cpu", device, "cpu / device", "models", "results", "repeated")
    for column in columns:
        table.add_column(column, justify="left" if column == "federation" else "right")
    for name in arguments.cases.split(","):
        values = {"algorithm": "fedpref", "rounds": arguments.rounds, "threads": arguments.threads}
        configuration = configure({**values, **CASES[name]})
        turns = [measured(configuration, where) for where in (CPU, device, CPU, device)]
        cpu, there = turns[::2], turns[1::2]
        times = [min(turn.milliseconds for turn in pair) for pair in (cpu, there)]
        repeated = all(np.array_equal(m, there[1].models[k]) for k, m in there[0].models.items())
        table.add_row(
            name,
            *(f"{each:.2f}" for each in times),
            f"{times[0] / times[1]:.2f}",
            f"{distance(cpu[0].models, there[0].models):.1e}",
            f"{np.abs(cpu[0].vectors - there[0].vectors).max():.1e}",
            "equal bits" if repeated else "not equal",
        )
    Console().print(table)
    print("models: largest ‖difference‖ / ‖model‖ of a client; results: largest difference")


def measured(configuration: Configuration, device: str) -> Outcome:
    """Return what a federation takes on a device, and where it ends.

    Args:
        configuration: The federation.
        device: Where it runs.
    """
    configuration = configuration.model_copy(update={"device": device})
    seconds = []
    with limited(configuration.threads), placed(device), EmbeddedEngine(configuration) as engine:
        loop = SimulatedLoop(engine, Server(configuration))
        rounds = loop.rounds()
        while loop.done < configuration.rounds:
            synchronise(device)
            began = time.perf_counter()
            next(rounds)
            synchronise(device)
            seconds.append(time.perf_counter() - began)
        models = engine.models(kept=False).tensors
        arrays = {name: tensor.numpy(force=True).copy() for name, tensor in models.items()}
        each = 1000 * median(seconds[1:]) / configuration.clients
        return Outcome(each, arrays, engine.test(kept=False))


def synchronise(device: str) -> None:
    """Wait until a device has done all that it was asked."""
    if device != CPU:
        torch.get_device_module(device).synchronize()


def distance(one: NamedArrays, other: NamedArrays) -> float:
    """Return the largest relative distance of a client's model from the same client's other one."""
    squares = [(np.square(one[k] - other[k]), np.square(one[k])) for k in one]
    apart, length = (
        sum(part.reshape(len(part), -1).sum(axis=1, dtype=np.float64) for part in parts)
        for parts in zip(*squares, strict=True)
    )
    return float(np.sqrt(apart / length).max())


if __name__ == "__main__":
    main()
