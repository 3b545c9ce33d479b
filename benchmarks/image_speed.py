"""Personalised learning on pictures: rounds, a stack of CNNs, ConFREE on the server, memory.

*Rounds.* The plain loop is the obvious program: for each client a copy of the global CNN, a
new SGD, batches by index, one pass over its pictures; then the mean. Comity does the same work
(FedAvg on the same clients) with all steps of a round: delivery, checks, records; once as usual,
with two validations per round, and once without them, as the others do. Flower's simulation
trains the same CNN on as many pictures of the same size (`flower_pictures`). Times are CPU times of
one thread, taken in turns.

*A stack of CNNs.* One step of 10 clients: mapped, which makes one grouped convolution of theirs,
and client by client, which is what Comity does with every network that convolves.

*ConFREE's step* for N clients: on inner products alone, as it is done here, against forming the
projected vectors themselves (N x p, one projection after the other), as the formula is written.

*Memory.* The peak of a separate process, 100 clients of which 10 take part, over 50 rounds.

    python -m benchmarks.image_speed [--problem NAME] [--clients N] [--repeats N]
        [--only rounds,stack,server,memory] [--no-flower]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from statistics import median
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.func import functional_call, grad, vmap

from benchmarks.tabular_referees import flower, processor, spread
from comity.algorithms.wrappers.confree import direction
from comity.configuration import Configuration, configure
from comity.core.fleet import Fleet
from comity.core.threads import limited
from comity.core.typing import FloatArray, IntArray
from comity.federation.clients import Clients
from comity.federation.engines.embedded import EmbeddedEngine
from comity.federation.loop import RoundLoop
from comity.federation.server import Server
from comity.problems import DataProblem
from comity.problems.networks import cnn

STACK, BATCH, STEPS = 10, 10, 5
"""Size of the stack of CNNs, pictures per step, and number of measured steps."""


def plain_round(configuration: Configuration) -> Callable[[], float]:
    """Return a function that trains every client once in plain PyTorch and returns CPU seconds."""
    problem = configuration.get_problem()
    assert isinstance(problem, DataProblem)
    columns, shares = problem.columns(), problem.client_rows()
    settings = configuration.learner_settings
    shared = problem.model()
    generator = torch.Generator().manual_seed(0)

    def once() -> float:
        started = time.process_time()
        models = []
        for share in shares:
            model = deepcopy(shared)
            descent = torch.optim.SGD(model.parameters(), settings["learning_rate"])
            rows = torch.from_numpy(share.train)
            order = rows[torch.randperm(len(rows), generator=generator)]
            for batch in order.split(settings["batch_size"]):
                loss = F.cross_entropy(model(columns["inputs"][batch]), columns["label"][batch])
                descent.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                descent.step()
            models.append(model.state_dict())
        sizes = torch.tensor([float(len(share.train)) for share in shares])
        weights = sizes / sizes.sum()
        mean = {
            name: torch.einsum("n,n...->...", weights, torch.stack([m[name] for m in models]))
            for name in models[0]
        }
        shared.load_state_dict(mean)
        return time.process_time() - started

    return once


def fleet_round(configuration: Configuration, validated: bool) -> Callable[[], float]:
    """Return a function that runs one round of the federation and returns CPU seconds."""
    rounds = RoundLoop(EmbeddedEngine(configuration), Server(configuration)).rounds()

    def unknown(clients: Clients, rows: IntArray, delivered: bool) -> FloatArray:
        return np.full((len(rows), 1), np.nan)

    def once() -> float:
        with mock.patch.object(Clients, "_validate", Clients._validate if validated else unknown):
            started = time.process_time()
            next(rounds)
            return time.process_time() - started

    return once


def stack_times() -> tuple[float, float]:
    """Return CPU seconds of one step of several CNNs, mapped and client by client."""
    network = cnn(3, 32, 32, 10)
    network.body[0] = torch.nn.Identity()  # the same layout for both
    fleet = Fleet.of(network, STACK)
    inputs, labels = torch.randn(STACK, BATCH, 3, 32, 32), torch.randint(10, (STACK, BATCH))

    def loss(parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(network, parameters, (inputs,)), labels)

    def mapped() -> None:
        vmap(grad(loss))(fleet.tensors, inputs, labels)

    def one_by_one() -> None:
        for place in range(STACK):
            model = {name: tensor[place] for name, tensor in fleet.tensors.items()}
            grad(loss)(model, inputs[place], labels[place])

    times = []
    for step in (mapped, one_by_one):
        step()
        started = time.process_time()
        for _ in range(STEPS):
            step()
        times.append((time.process_time() - started) / STEPS)
    return times[0], times[1]


def projected(updates: torch.Tensor) -> torch.Tensor:
    """Return the guidance vector, from vectors: each update less its parts against others."""
    norms = updates.square().sum(dim=1)
    rows = []
    for i in range(len(updates)):
        row = updates[i].clone()
        for j in range(len(updates)):
            along = updates[i] @ updates[j]
            if i != j and along < 0:
                row -= along / norms[j] * updates[j]
        rows.append(row)
    return torch.stack(rows).mean(dim=0)


def server_times(clients: int, size: int) -> tuple[float, float, float]:
    """Return CPU seconds of ConFREE's step from inner products, and of projecting the vectors.

    The third number is by how much both guidance vectors differ, as a share of their length.
    """
    generator = torch.Generator().manual_seed(clients)
    updates = 0.3 + torch.randn(clients, size, generator=generator)
    updates[: clients // 2] *= -1
    started = time.process_time()
    gram = Fleet({"update": updates}).gram()["update"]
    step = direction(gram, 0.4)
    torch.as_tensor(step.weights, dtype=torch.float32) @ updates
    ours = time.process_time() - started
    started = time.process_time()
    expected = projected(updates)
    vectors = time.process_time() - started
    guidance = torch.as_tensor(step.guidance, dtype=torch.float32) @ updates
    return ours, vectors, float((guidance - expected).norm() / expected.norm())


_RUN = """
import json, resource, sys, tempfile
import comity
peaks = []
def note(event):
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
with tempfile.TemporaryDirectory() as folder:
    comity.run(sys.argv[1], algorithm="fedavg", clients=100, participation=0.1, rounds=50, seed=1,
               partition="pathological:2", out=folder + "/run", on_round=note)
print(json.dumps(peaks))
"""


def peak_memory(problem: str) -> list[float]:
    """Return the peak, in MB, of a process that runs 50 rounds, after each round."""
    command = [sys.executable, "-c", _RUN, problem]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks: list[float] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def show_rounds(console: Console, problem: str, clients: int, repeats: int, flowers: bool) -> None:
    configuration = configure(
        {
            "problem": problem,
            "algorithm": "fedavg",
            "clients": clients,
            "chunk": clients,
            "partition": "pathological:2",
            "rounds": repeats + 1,
        }
    )
    contenders = {
        "plain loop": plain_round(configuration),
        "Comity": fleet_round(configuration, validated=True),
        "Comity without validation": fleet_round(configuration, validated=False),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with limited(1):
        for number in range(repeats + 1):
            for name, once in contenders.items():
                spent = once()
                if number:  # the first includes what is done only once
                    times[name].append(spent / clients)
    if flowers:
        script = str(Path(__file__).with_name("flower_pictures.py"))
        run = flower(clients, repeats, 18, script=script)
        if isinstance(run, str):
            console.print(run)
        else:
            times["Flower"] = [run["cpu_seconds_per_client_round"]]
    table = Table(title=f"{problem}, {clients} clients, one pass per round")
    headings = ("", "CPU ms per client and round", "plain loop / it", "Flower / it")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left")
    for name, seconds in times.items():
        ratios = [p / s for p, s in zip(times["plain loop"], seconds, strict=False)]
        of_flower = [median(times["Flower"]) / s for s in seconds] if "Flower" in times else []
        shown = f"{1000 * median(seconds):.1f} ({1000 * min(seconds):.1f} to "
        shown += f"{1000 * max(seconds):.1f})"
        table.add_row(name, shown, spread(ratios), spread(of_flower) if of_flower else "–")
    console.print(table)


def show_stack(console: Console) -> None:
    with limited(1):
        mapped, looped = stack_times()
    console.print(
        f"One step of {STACK} CNNs, batches of {BATCH}: {1000 * mapped:.0f} CPU ms as one grouped "
        f"convolution, {1000 * looped:.0f} client by client ({mapped / looped:.1f} times faster)"
    )


def show_server(console: Console) -> None:
    table = Table(title="ConFREE's step on the server, 900,000 parameters, CPU seconds")
    for heading in ("clients", "inner products", "projected vectors", "ratio", "difference"):
        table.add_column(heading, justify="right")
    with limited(1):
        for clients in (20, 60, 200):
            ours, vectors, apart = server_times(clients, 900_000)
            ratio = f"{vectors / ours:.1f}"
            table.add_row(str(clients), f"{ours:.2f}", f"{vectors:.2f}", ratio, f"{apart:.0e}")
    console.print(table)


def show_memory(console: Console) -> None:
    for problem in ("usps-mlp", "usps"):
        peaks = peak_memory(problem)
        after = ", ".join(f"{peaks[n - 1]:.0f} MB after {n}" for n in (1, 10, 25, 50))
        console.print(f"Peak memory, {problem}, 100 clients, 10 take part, rounds: {after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="cifar10-small")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="rounds,stack,server,memory")
    parser.add_argument("--no-flower", action="store_true")
    options = parser.parse_args()
    console, parts = Console(), options.only.split(",")
    console.print(processor())
    if "rounds" in parts:
        size = options.problem, options.clients, options.repeats
        show_rounds(console, *size, flowers=not options.no_flower)
    if "stack" in parts:
        show_stack(console)
    if "server" in parts:
        show_server(console)
    if "memory" in parts:
        show_memory(console)


if __name__ == "__main__":
    main()
