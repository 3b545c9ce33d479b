"""Two clients with two tasks on Multi-MNIST, federated and alone.

    python -m benchmarks.two_tasks
    python -m benchmarks.two_tasks --samples 30000 --rounds 30 --repetitions 5

The experiment of the thesis' section 5.1: two clients with half of the pictures each weigh the left
digit and the right one with (p, 1 - p) and (1 - p, p), federated with FedAvg or alone, with
the same settings otherwise. The thesis has p = 0, 0.1, …, 0.9; above 0.5 that is the same again
with clients swapped, so p = 0, …, 0.5 is run and both clients count: one of them has weight p on
the left digit, the other 1 - p. Models are those of the last round, evaluated on each client's own
test pictures.

Prints every model's accuracies, a table by weight and a summary, and draws the picture of
docs/two-tasks.md. The defaults take about a quarter of an hour on one core, the second command
about three and a half hours.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich.console import Console
from rich.table import Table

import comity
from comity.core.pareto import hypervolume
from comity.core.typing import FloatArray
from comity.problems.multitask import SAMPLES, multi_task, training_digits
from comity.report.colours import GREY, PALETTE
from comity.report.figures.style import MARKERS, canvas, save, styled

ALGORITHMS = {"no-communication": "alone", "fedavg": "FedAvg"}
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "two-tasks.png"

Points = dict[float, list[list[float]]]
"""Accuracies (left, right) of models, by their client's weight on the left digit."""


def trained(
    problem: comity.DataProblem, algorithm: str, p: float, seed: int, options: argparse.Namespace
) -> list[list[float]]:
    """Return left and right accuracy of both clients."""
    steps = {} if options.steps is None else {"local_steps": options.steps}
    with tempfile.TemporaryDirectory() as place:
        run = comity.run(
            problem,
            algorithm=algorithm,
            clients=2,
            preferences=[[p, 1 - p], [1 - p, p]],
            seed=seed,
            rounds=options.rounds,
            keep="last",
            supervised=steps,
            out=Path(place) / "run",
        )
        return [list(row["objectives"].values()) for row in run.results["per_client"]]


def means(points: Points) -> FloatArray:
    """Return mean accuracies, one row per weight, in the order of the weight on the left digit."""
    return np.array([np.mean(points[weight], axis=0) for weight in sorted(points)])


def extent(values: FloatArray) -> str:
    return f"{values.min():.3f} to {values.max():.3f} ({np.ptp(values):.3f})"


def tables(results: dict[str, Points]) -> tuple[Table, Table]:
    """Return a table of accuracies by weight, and a summary."""
    detail = Table(title="mean accuracy, left / right")
    detail.add_column("weight on left", justify="right")
    summary = Table(title="left accuracy over all weights, and over weights 0.1 to 0.9")
    for column in ("", "range", "range, 0.1 to 0.9", "hypervolume"):
        summary.add_column(column)
    for algorithm, points in results.items():
        detail.add_column(ALGORITHMS[algorithm])
        left = means(points)[:, 0]
        every = np.concatenate(list(points.values()))
        volume = f"{hypervolume(every, (0.0, 0.0)):.4f}"
        summary.add_row(ALGORITHMS[algorithm], extent(left), extent(left[1:-1]), volume)
    rows = zip(*(means(points) for points in results.values()), strict=True)
    for weight, row in zip(sorted(results["fedavg"]), rows, strict=True):
        detail.add_row(f"{weight:.1f}", *(f"{left:.3f} / {right:.3f}" for left, right in row))
    return detail, summary


@styled
def draw(results: dict[str, Points], path: Path) -> None:
    """Draw all models, from far and from near; a line joins the means of those trained alone."""
    figure = canvas(6.4, 3.1)
    far, near = figure.subplots(1, 2)
    for axes in (far, near):
        _scatter(axes, results)
    far.set(xlim=(0, 1), ylim=(0, 1), title="all weights")
    close = np.concatenate([means(points)[1:-1] for points in results.values()])
    low, high = close.min() - 0.015, close.max() + 0.015
    near.set(xlim=(low, high), ylim=(low, high), title="the framed part")
    far.plot(
        [low, high, high, low, low],
        [low, low, high, high, low],
        color=GREY,
        linewidth=0.6,
    )
    far.legend(loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def _scatter(axes: Axes, results: dict[str, Points]) -> None:
    for number, (algorithm, points) in enumerate(results.items()):
        every = np.concatenate(list(points.values()))
        axes.scatter(
            every[:, 0],
            every[:, 1],
            s=16,
            marker=MARKERS[number],
            color=PALETTE[1 - number],
            edgecolor="white",
            linewidth=0.4,
            label=ALGORITHMS[algorithm],
            zorder=3,
        )
        if algorithm == "no-communication":
            axes.plot(*means(points).T, color=PALETTE[1 - number], linewidth=0.8)
    axes.set_xlabel("accuracy on the left digit")
    axes.set_ylabel("accuracy on the right digit")
    axes.set_aspect("equal")
    axes.grid(True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=SAMPLES, help="pictures of both clients")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, help="local steps per round; default: one pass")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    problem = multi_task(f"multi-mnist-{options.samples}", training_digits, options.samples)
    results: dict[str, Points] = {algorithm: {} for algorithm in ALGORITHMS}
    for seed in range(1, options.repetitions + 1):
        for p in SHARES:
            for algorithm, points in results.items():
                first, second = trained(problem, algorithm, p, seed, options)
                points.setdefault(p, []).append(first)
                points.setdefault(round(1 - p, 1), []).append(second)
                print(f"seed {seed}, p = {p}, {algorithm}: {first} {second}", flush=True)
    for table in tables(results):
        Console(width=100).print(table)
    draw(results, options.picture)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
