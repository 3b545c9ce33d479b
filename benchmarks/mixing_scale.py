"""FedPref's server step for many clients: n x n algebra against a plain loop over pairs.

The step is what the server does between two rounds: compare all updates (top-R cosine, tensor by
tensor), split the cluster in two, compare again inside the parts, and mix a model for each client
(``algorithm.mix`` and ``fleet.mix``). The models have the shapes of deep-sea-treasure's network;
updates come from two kinds of clients (a common direction each, and noise), so there are clusters.
The loop does what the paper's formulas say, literally: for each ordered pair of clients and each
tensor keep the top R of both updates and take their cosine; then a weighted sum for each client.
It has the same fast selection (np.partition) as the library, and its split is not counted.

Each size runs in a separate process with one thread; times are CPU times.

    python -m benchmarks.mixing_scale [--clients N ...] [--pairs N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from comity.algorithms import Round
from comity.algorithms.fedpref import FedPref
from comity.core.fleet import Fleet
from comity.core.mixing import spectral_bipartition
from comity.core.typing import FloatArray

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SHAPES = {
    "0.weight": (256, 2),
    "0.bias": (256,),
    "2.weight": (256, 256),
    "2.bias": (256,),
    "4.weight": (4, 256),
    "4.bias": (4,),
}
TOP_R = 0.8
FULL = 20  # up to this many clients the loop runs in full
NOTES = """
[b]choose[/b]: from the models sent to the mixing matrix, one split included. [b]mix[/b]: the \
matrix times the models.
[b]loop[/b]: in full up to {full} clients; ~: extrapolated from {pairs} random pairs and the \
weighted sums of two clients.
[b]peak memory[/b]: of the step, as a multiple of the models sent, which themselves count as one.
"""


def federation(clients: int, shapes: dict[str, tuple[int, ...]]) -> Round:
    """Return a round in which clients of two kinds, in turn, moved away from one common start."""
    generator = torch.Generator().manual_seed(clients)
    sent, start = {}, {}
    for name, shape in shapes.items():
        first = torch.randn(1, *shape, generator=generator) / 16
        ways = torch.randn(2, *shape, generator=generator) / 50
        models = torch.empty(clients, *shape)
        for client, model in enumerate(models):
            torch.randn(shape, generator=generator, out=model)
            model.mul_(0.02).add_(first[0]).add_(ways[client % 2])
        sent[name], start[name] = models, first.expand(clients, *shape)
    ids = tuple(range(clients))
    return Round(1, ids, ids, Fleet(sent), Fleet(start), np.ones(clients))


def batched(round: Round) -> tuple[FloatArray, Fleet, list[list[int]], tuple[float, float]]:
    """Return weights, mixed models, clusters and CPU seconds (choose, mix) of the library."""
    algorithm = FedPref(top_r=TOP_R, threshold=1e9, patience=1)
    begin = time.process_time()
    weights = algorithm.mix(round)["*"].weights
    chosen = time.process_time()
    mixed = round.sent.mix(weights)
    end = time.process_time()
    return weights, mixed, algorithm.diagnostics()["clusters"], (chosen - begin, end - chosen)


def looped_pair(models: list[dict[str, Any]], start: dict[str, Any], i: int, j: int) -> float:
    """Return sim_ij = mean over tensors of cos(topR(update of i), topR(update of j))."""
    cosines = []
    for name, first in start.items():
        updates = [models[client][name] - first for client in (i, j)]
        for update in updates:
            size = np.abs(update)
            dropped = update.size - ceil(TOP_R * update.size - 1e-9)
            update[size < np.partition(size, dropped)[dropped]] = 0.0
        one, other = updates
        cosines.append(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    return float(np.mean(cosines))


def looped_sum(models: list[dict[str, Any]], weights: Iterable[float]) -> dict[str, Any]:
    """Return one client's model: the weighted sum of all."""
    total = {name: np.zeros_like(tensor) for name, tensor in models[0].items()}
    for model, weight in zip(models, weights, strict=True):
        for name, tensor in model.items():
            total[name] += np.float32(weight) * tensor
    return total


def looped(
    round: Round, weights: FloatArray, mixed: Fleet, clusters: list[list[int]], samples: int
) -> tuple[float, float]:
    """Return CPU seconds of the loop, and its distance from the library (nan: a sample)."""
    n = len(round.sent)
    arrays = {name: t.reshape(n, -1).numpy() for name, t in round.sent.tensors.items()}
    models = [{name: array[client] for name, array in arrays.items()} for client in range(n)]
    start = {name: t[0].reshape(-1).numpy() for name, t in round.start.tensors.items()}
    pairs, givers = n**2 + sum(len(c) ** 2 for c in clusters), sum(len(c) ** 2 for c in clusters)
    if n > FULL:
        generator = np.random.default_rng(n)
        begin = time.process_time()
        for i, j in generator.integers(n, size=(samples, 2)):
            looped_pair(models, start, i, j)
        middle = time.process_time()
        for client in (0, 1):
            part = next(cluster for cluster in clusters if client in cluster)
            looped_sum([models[other] for other in part], weights[client, part])
        end = time.process_time()
        summed = sum(len(c) * len({0, 1} & set(c)) for c in clusters)
        return (middle - begin) * pairs / samples + (end - middle) * givers / summed, float("nan")
    begin = time.process_time()
    similarity = np.eye(n)
    for i, j in product(range(n), repeat=2):
        similarity[i, j] = looped_pair(models, start, i, j)
    looped = np.zeros((n, n))
    for part in spectral_bipartition(similarity) or ():
        for i, j in product(part, repeat=2):
            looped[i, j] = (looped_pair(models, start, i, j) + 1.0) / 2
    looped /= looped.sum(axis=1, keepdims=True)
    sums = [looped_sum(models, row) for row in looped]
    seconds = time.process_time() - begin
    distance = np.abs(looped - weights).max()
    for name, tensor in mixed.tensors.items():
        stacked = np.stack([model[name] for model in sums])
        distance = max(distance, np.abs(stacked - tensor.reshape(n, -1).numpy()).max())
    return seconds, float(distance)


def memory(field: str) -> int:
    """Return a field of this process' status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def child(clients: int, samples: int) -> dict[str, Any]:
    """Measure one size in this process."""
    torch.set_num_threads(1)
    for size in (20, 600):  # libraries load parts of themselves late; two kinds of eigensolver
        batched(federation(size, {"weight": (100,)}))
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak after the imports
    before = memory("VmRSS")
    round = federation(clients, SHAPES)
    models = sum(tensor.nbytes for tensor in round.sent.tensors.values())
    weights, mixed, clusters, (choose, mix) = batched(round)
    peak = (memory("VmHWM") - before) / models
    loop, distance = looped(round, weights, mixed, clusters, samples)
    return {
        "choose": choose,
        "mix": mix,
        "loop": loop,
        "memory": peak,
        "models": models,
        "clusters": [len(cluster) for cluster in clusters],
        "found": sorted(clusters) == [list(range(k, clients, 2)) for k in (0, 1)],
        "distance": distance,
    }


def measure(clients: int, samples: int) -> dict[str, Any]:
    """Measure one size in a separate process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.mixing_scale", "--child"]
    output = subprocess.run(
        [*command, "--clients", str(clients), "--pairs", str(samples)],
        stdout=subprocess.PIPE,
        env={**os.environ, **dict.fromkeys(THREADS, "1")},
        check=True,
    ).stdout
    values: dict[str, Any] = json.loads(output.splitlines()[-1])
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[20, 100, 1000])
    parser.add_argument("--pairs", type=int, default=200, help="pairs that the loop is timed on")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.clients[0], arguments.pairs)))
        return

    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.width = max(console.width, 108)
    table = Table(title="FedPref's server step, 67,588 parameters per client, one thread")
    table.add_column("clients", justify="right")
    numbers = ("choose, CPU s", "mix, CPU s", "together", "loop, CPU s", "ratio", "peak memory")
    for heading in numbers:
        table.add_column(heading, justify="right")
    table.add_column("split", no_wrap=True)
    distances = []
    for clients in arguments.clients:
        with console.status(f"{clients} clients"):
            values = measure(clients, arguments.pairs)
        together, loop = values["choose"] + values["mix"], values["loop"]
        if clients <= FULL:
            distances.append(f"{clients} clients {values['distance']:.1e}")
        table.add_row(
            f"{clients:,}",
            f"{values['choose']:.3f}",
            f"{values['mix']:.3f}",
            f"{together:.3f}",
            f"{'' if clients <= FULL else '~'}{loop:,.{1 if loop < 100 else 0}f}",
            f"{loop / together:,.0f}x",
            f"{values['memory']:.2f} x {values['models'] / 1e6:,.0f} MB",
            " + ".join(map(str, values["clusters"]))
            + ("" if values["found"] else " (not as drawn)"),
        )
    console.print(table)
    console.print(NOTES.format(pairs=arguments.pairs, full=FULL))
    if distances:
        console.print("Largest difference of a weight or model from the loop:", *distances)


if __name__ == "__main__":
    main()
