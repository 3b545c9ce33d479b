"""Personalised learning on pictures: rounds against a plain loop; ConFREE's time on the server.

The loop is what anybody would write: for each client a copy of the global CNN, a new SGD, batches
by index, one pass over its pictures; then the mean. Comity does the same work (FedAvg on the same
clients) with all that a round has: delivery, checks, two validations, records. Times are CPU times
of one thread, taken in turns.

ConFREE's step for N clients: on inner products alone, as it is done here, against forming the
projected vectors themselves (N x p, one projection after the other), as the formula is written.

    python -m benchmarks.image_speed [--problem NAME] [--clients N] [--repeats N] [--no-server]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from copy import deepcopy
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from comity.algorithms.confree import direction
from comity.configuration import Configuration, configure
from comity.engines.embedded import Embedded
from comity.federation import Federation, Loop
from comity.fleet import Fleet
from comity.problems import DataProblem
from comity.threads import limited


def plain_round(configuration: Configuration) -> Callable[[], float]:
    """A function that trains every client once in plain PyTorch, and says its CPU seconds."""
    problem = configuration.get_problem()
    assert isinstance(problem, DataProblem)
    columns, shares = problem.columns(), problem.shares()
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


def fleet_round(configuration: Configuration) -> Callable[[], float]:
    """The same as a federation, round by round."""
    rounds = Loop(Embedded(configuration), Federation(configuration)).rounds()

    def once() -> float:
        started = time.process_time()
        next(rounds)
        return time.process_time() - started

    return once


def projected(updates: torch.Tensor) -> torch.Tensor:
    """The guidance vector, from vectors: each update less what opposes another one."""
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
    """CPU seconds of ConFREE's whole step from inner products, and of the vectors' projections.

    The third number is by how much both guidance vectors differ, as a share of their length.
    """
    generator = torch.Generator().manual_seed(clients)
    updates = 0.3 + torch.randn(clients, size, generator=generator)
    updates[: clients // 2] *= -1
    started = time.process_time()
    gram = Fleet({"update": updates}).gram()["update"]
    found = direction(gram, 0.4)
    torch.as_tensor(found.weights, dtype=torch.float32) @ updates
    ours = time.process_time() - started
    started = time.process_time()
    wanted = projected(updates)
    vectors = time.process_time() - started
    guidance = torch.as_tensor(found.guidance, dtype=torch.float32) @ updates
    return ours, vectors, float((guidance - wanted).norm() / wanted.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="cifar10-small")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-server", action="store_true")
    options = parser.parse_args()
    console = Console()
    configuration = configure(
        {
            "problem": options.problem,
            "algorithm": "fedavg",
            "clients": options.clients,
            "chunk": options.clients,
            "partition": "pathological:2",
            "rounds": options.repeats + 1,
        }
    )
    with limited(1):
        plain, fleet = plain_round(configuration), fleet_round(configuration)
        plain(), fleet()  # once for everything that is done only once
        pairs = [(plain(), fleet()) for _ in range(options.repeats)]
    table = Table(title=f"{options.problem}, {options.clients} clients, one pass a round")
    for heading in ("", "client-rounds per CPU second", "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    ratios = sorted(one / other for one, other in pairs)
    for place, name in enumerate(("plain loop", "Comity")):
        rate = options.clients / median(pair[place] for pair in pairs)
        spread = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if place else "1"
        table.add_row(name, f"{rate:.2f}", spread)
    console.print(table)
    if options.no_server:
        return
    table = Table(title="ConFREE's step on the server, 900,000 parameters, CPU seconds")
    for heading in ("clients", "inner products", "projected vectors", "ratio", "difference"):
        table.add_column(heading, justify="right")
    with limited(1):
        for clients in (20, 60, 200):
            ours, vectors, apart = server_times(clients, 900_000)
            ratio = f"{vectors / ours:.1f}"
            table.add_row(str(clients), f"{ours:.2f}", f"{vectors:.2f}", ratio, f"{apart:.0e}")
    console.print(table)


if __name__ == "__main__":
    main()
