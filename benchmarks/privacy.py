"""Differential privacy: epsilon against quality on Adult, for FedAvg and FedPref.

    python -m benchmarks.privacy --seeds 3
    python -m benchmarks.privacy --seeds 3 --models linear --clients 100 --algorithms fedavg
    python -m benchmarks.privacy --table

Runs each algorithm without noise and under five epsilons (delta = 1e-5), with the network of the
problem and with a linear model, which has far fewer numbers to hide; alone (no communication) and
the constant classifier stand beside. Noise is that of the rounds that are run, so rounds are few.
What each run ended with is added to a JSON file at once, so a second call goes on where the first
was stopped. Then it prints, per model, number of clients, algorithm and epsilon, mean ± population
standard deviation over seeds of

- *kept*: mean scalarised value of the models that clients keep, the best on their validation rows.
  A client may keep what it has trained by itself;
- *last*: of the models that are delivered last, which is what the federation has learned;
- *accuracy* and *fairness* (demographic parity) of the latter.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.records import Record, add, key, options_of, read_records, spread
from comity.problems import find, register
from comity.problems.fairness import FairnessProblem
from comity.runs.execute import execute, start_run

MODELS = {"network": "adult-gender-dp", "linear": "adult-gender-dp-linear"}
"""Problems by their model."""
EPSILONS = (1.0, 8.0, 50.0, 500.0, 5000.0)
ALONE = "no-communication"
RUN = {"rounds": 5, "supervised": {"local_steps": 50, "learning_rate": 0.01}}
CLIP = {"network": 1.0, "linear": 1.0}
"""Largest length of an update by model; see the results for how it was chosen."""
FILE = Path(__file__).parent / "results" / "privacy.json"
KEYS = ("model", "clients", "algorithm", "epsilon", "seed")


def register_linear() -> None:
    """Register the problem with a linear model."""
    problem = find(MODELS["network"])
    assert isinstance(problem, FairnessProblem)
    register(replace(problem, name=MODELS["linear"], hidden=()))


def measured(model: str, clients: int, algorithm: str, epsilon: float, seed: int) -> Record:
    """Return the figures of one run; an epsilon of 0 stands for no noise."""
    values: dict[str, Any] = {
        "problem": MODELS[model], "clients": clients, "algorithm": algorithm, "seed": seed, **RUN,
    }  # fmt: skip
    if epsilon:
        values["privacy"] = {"epsilon": epsilon, "clip": CLIP[model]}
    with tempfile.TemporaryDirectory() as directory:
        run = execute(start_run(values, Path(directory) / "run"))
        results, problem = run.results, run.configuration.get_problem()
        parameters = sum(p.numel() for p in problem.model().parameters())
    last = dict(results.get("metrics_last", results["metrics"]))
    return {
        "model": model,
        "clients": clients,
        "algorithm": algorithm,
        "epsilon": epsilon,
        "seed": seed,
        "parameters": parameters,
        "privacy": dict(results.get("privacy", {})),
        "metrics": dict(results["metrics"]),
        "metrics_last": last,
        "trivial": dict(results["trivial"]),
    }


def tables(records: Sequence[Record]) -> Iterator[Table]:
    """Yield one table per model and number of clients, one row per algorithm and epsilon."""
    for model, clients in sorted({(r["model"], r["clients"]) for r in records}):
        runs = [r for r in records if (r["model"], r["clients"]) == (model, clients)]
        title = f"{model} ({runs[0]['parameters']:,} parameters), {clients} clients"
        table = Table(title=title, title_justify="left")
        for heading in ("algorithm", "epsilon", "noise", "seeds", "kept", "last"):
            table.add_column(heading, justify="left" if heading == "algorithm" else "right")
        for heading in ("accuracy, last", "fairness, last"):
            table.add_column(heading, justify="right")
        rows = dict.fromkeys((r["algorithm"], r["epsilon"]) for r in runs)
        for algorithm, epsilon in sorted(rows, key=lambda row: (row[0], -row[1] or -np.inf)):
            some = [r for r in runs if (r["algorithm"], r["epsilon"]) == (algorithm, epsilon)]
            noise = some[0]["privacy"].get("noise")
            table.add_row(
                algorithm,
                f"{epsilon:g}" if epsilon else "none",
                "–" if noise is None else f"{noise:.3g}",
                str(len(some)),
                spread([r["metrics"]["mean_scalarised"] for r in some]),
                *(
                    spread([r["metrics_last"][name] for r in some])
                    for name in ("mean_scalarised", "accuracy", "fairness")
                ),
            )
        names = ("mean_scalarised", "mean_scalarised", "accuracy", "fairness")
        trivial = [spread([r["trivial"][name] for r in runs]) for name in names]
        table.add_row("constant", "–", "–", "–", *trivial)
        yield table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--clients", default="10")
    parser.add_argument("--algorithms", default="fedavg,fedpref")
    parser.add_argument("--seeds", type=int, default=3)
    options = options_of(parser, FILE)
    records = read_records(options.file)
    done = {key(record, KEYS) for record in records}
    register_linear()
    entries = [(ALONE, 0.0), *product(options.algorithms.split(","), (0.0, *EPSILONS))]
    counts = [int(count) for count in options.clients.split(",")]
    runs = product(range(1, options.seeds + 1), options.models.split(","), counts, entries)
    for seed, model, clients, (algorithm, epsilon) in () if options.table else runs:
        if (model, clients, algorithm, epsilon, seed) not in done:
            add(measured(model, clients, algorithm, epsilon, seed), records, options.file)
    for table in tables(records):
        Console(width=150).print(table)


if __name__ == "__main__":
    main()
