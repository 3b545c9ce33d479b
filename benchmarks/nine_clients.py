"""Weights between nine clients on real pictures, with pFedRLLA's agent trained from scratch.

Three times three clients have the same classes; the first two triples share one class, the third
none. Prints the weights with which clients take each other's heads, mean over the last
quarter of the rounds, and their means by what two clients have in common.

    python -m benchmarks.nine_clients [--problem cifar10-small] [--rounds 80] [--network flat]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import comity
from comity.core.rng import stream
from comity.core.typing import IntArray
from comity.datasets.partition import ClientRows, PartitionSpec
from comity.problems import DataProblem, Samples, find
from comity.report.series.agent import agent_diagnostics

GROUPS = ((0, 1, 2, 3), (3, 4, 5, 6), (7, 8, 9))
CLIENTS = 9
KINDS = ("itself", "all classes in common", "one class in common", "no class in common")


def partition(samples: Samples, spec: PartitionSpec) -> list[ClientRows]:
    """Give every class to the clients of the groups that have it, in equal parts."""
    owner = np.empty(len(samples.strata), dtype=np.int64)
    for label in range(10):
        having = [client for client in range(CLIENTS) if label in GROUPS[client // 3]]
        rows = np.flatnonzero(samples.strata == label)
        rows = stream(spec.seed, "nine clients", label).permutation(rows)
        owner[rows] = np.resize(having, len(rows))
    names = tuple(f"client {client}" for client in range(CLIENTS))
    held = replace(samples, needed={}, silos=owner, silo_names=names)
    return held.partition(PartitionSpec(CLIENTS, spec.seed, "natural", split="65:15:20"))


def relations() -> IntArray:
    """Return the kind of each pair of clients, as an index into `KINDS`."""
    group = np.arange(CLIENTS) // 3
    kinds = np.full((CLIENTS, CLIENTS), 3)
    kinds[np.maximum.outer(group, group) < 2] = 2
    kinds[group[:, None] == group[None]] = 1
    np.fill_diagonal(kinds, 0)
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="cifar10-small")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--seeds", default="1", help="separated by commas")
    parser.add_argument("--network", default="pairwise")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--out", type=Path, required=True, help="directory for the runs")
    options = parser.parse_args()
    base = find(options.problem)
    assert isinstance(base, DataProblem)
    problem = replace(base, name=f"nine-{base.name}", partition=partition)
    total = []
    for seed in options.seeds.split(","):
        run = comity.run(
            problem,
            algorithm="pfedrlla",
            clients=CLIENTS,
            rounds=options.rounds,
            seed=int(seed),
            out=options.out / f"{options.network}-seed{seed}",
            pfedrlla={
                "network": options.network,
                "warmup": options.rounds // 4,
                "every": 1,
                "agent_steps": 20,
            },
            supervised={"learning_rate": options.learning_rate},
        )
        agent = agent_diagnostics(run)
        assert agent is not None
        total.append(agent.weights)
        print(f"\n{options.problem}, {options.network} agent, seed {seed}, {options.rounds} rounds")
        print("receiver | giver 0 to 8")
        for client, row in enumerate(agent.weights):
            print(f"{client:8d} | " + "  ".join(f"{weight:.3f}" for weight in row))
        print(f"accuracy {run.results['metrics']['accuracy']:.3f}")
        share = run.spent["server"] / run.spent["clients"]
        print(f"the server's time is {share:.1%} of the clients'")
    weights, kinds = np.array(total), relations()
    print("\nmean weight, and its spread over seeds")
    for place, kind in enumerate(KINDS):
        means = weights[:, kinds == place].mean(axis=1)
        print(f"{kind:24s} {means.mean():.3f} ± {means.std():.3f}")


if __name__ == "__main__":
    main()
