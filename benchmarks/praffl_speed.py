"""PraFFL: all clients and preferences as one program, against a loop over both; and its real time.

The loop is the same mathematics on the same batches and the same drawn preferences, in plain
PyTorch: client by client, and within a batch preference by preference, as public code does it. That
both end with the same weights is checked. Times are CPU times of one thread, taken in turns.

    python -m benchmarks.praffl_speed [--problem NAME] [--epochs N] [--repeats N] [--no-retraining]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import comity
from comity.algorithms.praffl import PraFFL, Spanning
from comity.configuration import Configuration, configure
from comity.core.fleet import Fleet
from comity.core.phases import ClientModel
from comity.core.rng import stream
from comity.core.scalarisations import direction_of, smooth_tchebycheff
from comity.core.threads import limited
from comity.federation.initial_model import initial_fleet
from comity.learners import LEARNERS, LearnerContext, Task
from comity.learners.supervised.client_data import ClientData
from comity.problems import DataProblem
from comity.runs.execute import execute, start_run

ROUND = 1


class Case:
    """Clients of a configuration, before their first round."""

    def __init__(self, problem: str, epochs: int) -> None:
        self.configuration: Configuration = configure(
            {"problem": problem, "algorithm": "praffl", "supervised": {"local_epochs": epochs}}
        )
        problem = self.configuration.get_problem()
        algorithm = self.configuration.get_algorithm()
        assert isinstance(problem, DataProblem)
        assert isinstance(algorithm, PraFFL)
        self.problem, self.algorithm = problem, algorithm
        self.clients = tuple(range(self.configuration.clients))
        learner, settings = LEARNERS[problem.learner]
        self.settings = settings(**self.configuration.learner_settings)
        context = LearnerContext(
            problem, self.settings, self.clients, self.configuration.get_preferences(),
            self.configuration.seed, self.start(),
            ClientModel(self.configuration.get_module(), True),
        )  # fmt: skip
        self.learner = learner(context)

    def start(self) -> Fleet:
        return initial_fleet(self.configuration, len(self.clients))

    def together(self) -> tuple[float, Fleet]:
        """Return CPU seconds of one round of local training as one program, and its models."""
        fleet, rows = self.start(), np.arange(len(self.clients))
        self.learner.load({"steps": np.zeros_like(rows), "skipped": np.zeros_like(rows)})
        phases = self.algorithm.phases(self.problem)
        task = Task(ROUND, phases, fleet.clone(), self.learner.round_steps)
        started = time.process_time()
        self.learner.train(fleet, rows, task)
        return time.process_time() - started, fleet

    def one_by_one(self) -> tuple[float, list[Spanning]]:
        """Return the same for a loop over clients and, in the second phase, over preferences."""
        start = self.start()
        modules = [start.module(k, self.configuration.get_module()) for k in self.clients]
        batch_size = self.configuration.learner_settings["batch_size"]
        data = ClientData(self.problem, self.clients, self.configuration.seed, batch_size)
        started = time.process_time()
        for client, module in enumerate(modules):
            assert isinstance(module, Spanning)
            self._client(client, module, data)
        return time.process_time() - started, modules  # type: ignore[return-value]

    def _client(self, client: int, module: Spanning, data: ClientData) -> None:
        steps = int(self.learner.round_steps[client])
        first = int(np.rint(self.algorithm.split * steps))
        owner, count = np.array([client]), len(self.problem.objectives)
        even = torch.full((count,), 1 / count)
        optimiser = self._adam(module.body)
        for index in data.batches(owner, first, "batches", ROUND)[0]:
            batch = data.gather(index)
            loss = self.problem.losses(module(batch["inputs"], even), batch)[0]
            self._step(optimiser, loss)
        optimiser = self._adam(module.hyper)
        generator = stream(self.configuration.seed, "draws 1", ROUND, client)
        size = (steps - first, self.algorithm.sampled)
        drawn = torch.from_numpy(generator.dirichlet(np.ones(count), size)).float()
        batches = data.batches(owner, steps - first, "batches 1", ROUND)[0]
        for index, preferences in zip(batches, drawn, strict=True):
            batch = data.gather(index)
            with torch.no_grad():
                features = module.body(batch["inputs"])
            total = torch.zeros(())
            for importance in preferences:
                w1, b1, w2, b2 = module.head(importance)
                losses = self.problem.losses((features @ w1.T + b1) @ w2.T + b2, batch)
                direction = direction_of(importance, self.algorithm.lambda_min)
                total = total + smooth_tchebycheff(losses, direction, self.algorithm.smoothing)
            self._step(optimiser, total / len(preferences))

    def _adam(self, part: nn.Module) -> torch.optim.Adam:
        s = self.configuration.learner_settings
        return torch.optim.Adam(
            part.parameters(), s["learning_rate"], weight_decay=s["weight_decay"]
        )

    @staticmethod
    def _step(optimiser: torch.optim.Adam, loss: Tensor) -> None:
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def furthest(fleet: Fleet, modules: list[Spanning]) -> float:
    """Return the largest difference between any two weights that should be equal."""
    apart = [
        float((fleet[name][client] - tensor).abs().max())
        for client, module in enumerate(modules)
        for name, tensor in module.state_dict().items()
    ]
    return max(apart)


def latency(run: comity.Run, count: int, repeats: int) -> float:
    """Return median seconds for the models of one client at ``count`` preferences."""
    generator, spent = np.random.default_rng(0), []
    for _ in range(repeats):
        preferences = generator.dirichlet([1.0, 1.0], count)
        started = time.perf_counter()
        for preference in preferences:
            run.model_for(0, preference)
        spent.append(time.perf_counter() - started)
    return median(spent)


def trained(problem: str, algorithm: str, **settings: object) -> tuple[float, comity.Run]:
    """Return CPU seconds of a whole run without drawing, and the run."""
    out = Path(tempfile.mkdtemp()) / algorithm
    started = time.process_time()
    run = execute(start_run({"problem": problem, "algorithm": algorithm, **settings}, out))
    return time.process_time() - started, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="praffl-synthetic")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the data, both phases")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-retraining", action="store_true")
    options = parser.parse_args()
    console = Console()
    case = Case(options.problem, options.epochs)
    with limited(1):
        case.together()  # includes what is done only once
        times = [(case.together(), case.one_by_one()) for _ in range(options.repeats)]
    ours, loop = (median(t[i][0] for t in times) for i in (0, 1))
    distance = furthest(times[0][0][1], times[0][1][1])
    table = Table(title=f"{options.problem}: one round of local training, {options.epochs} passes")
    for heading in ("", "CPU seconds", "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    table.add_row("loop over clients and preferences", f"{loop:.3f}", "1.0")
    ratios = sorted(pair[1][0] / pair[0][0] for pair in times)
    spread = f"{median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})"
    table.add_row("one program", f"{ours:.3f}", spread)
    console.print(table)
    console.print(f"largest difference between the weights of both: {distance:.1e}")

    seconds, run = trained(options.problem, "praffl")
    latency(run, 100, 1)
    one, many = latency(run, 1, 200), latency(run, 1000, 3)
    console.print(
        f"model_for: {one * 1e3:.3f} ms for one preference, {many * 1e3:.0f} ms for 1,000"
    )
    if options.no_retraining:
        return
    again, _ = trained(options.problem, "fedavg", preferences="same:0.5,0.5")
    table = Table(title="CPU seconds for models at N preferences")
    for heading in ("N", "praffl, trained once", "fedavg, trained N times", "ratio"):
        table.add_column(heading, justify="right")
    for count in (1, 10, 100, 1000):
        once, times_n = seconds + count * many / 1000, count * again
        table.add_row(str(count), f"{once:.1f}", f"{times_n:.1f}", f"{times_n / once:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
