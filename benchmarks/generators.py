"""Generators of candidates compared with an oracle instead of training.

python -m benchmarks.generators

The oracle looks up the result of a weight: the point of the known front with
the best scalarised (on Deep Sea Treasure discounted) return. Imperfect training is a draw of that
point from exp(value / noise), which often returns a point that is nearly as good. Many seeds cost
seconds, so differences between generators can be separated from chance.
"""

from __future__ import annotations

import argparse

import numpy as np

from comity.core.pareto import front, hypervolume
from comity.core.rng import stream
from comity.core.typing import AnyArray
from comity.problems import find
from comity.searches import Findings, Generator, generators

_GAMMA = 0.98
_NOISE = {"deep-sea-treasure": (0.0, 0.05, 0.15, 0.4), "minecart-deterministic": (0.0, 0.02, 0.1)}
_CANDIDATES = {"deep-sea-treasure": 5, "minecart-deterministic": 10}
_SHOWN = (2, 4, 6, 10, 20)


def oracle(problem: str) -> tuple[AnyArray, AnyArray]:
    """Return the returns that an agent maximises at each point of the front, and the points."""
    points = find(problem).front()
    assert points is not None
    if problem != "deep-sea-treasure":
        return points, points
    steps = -points[:, 1]
    worth = points[:, 0] * _GAMMA ** (steps - 1)
    time = -(1 - _GAMMA**steps) / (1 - _GAMMA)
    return np.stack([worth, time], axis=1), points


def searched(
    generator: Generator,
    problem: str,
    iterations: int,
    candidates: int,
    seed: int,
    noise: float = 0.0,
) -> list[float]:
    """Return the hypervolume after each iteration of a search with the oracle."""
    targets, points = oracle(problem)
    objectives = points.shape[1]
    reference = find(problem).search["reference_point"]
    weights = vectors = np.zeros((0, objectives))
    findings = Findings(weights, vectors, vectors, iterations * candidates)
    volumes = []
    for number in range(iterations):
        new = generator.propose(
            candidates, objectives, findings, stream(seed, "candidates", number)
        )
        draw = stream(seed, "training", number)
        reached = np.array([points[_trained(targets @ weight, noise, draw)] for weight in new])
        weights, vectors = np.concatenate([weights, new]), np.concatenate([vectors, reached])
        findings = Findings(weights, vectors, front(vectors), iterations * candidates)
        generator.learn(new, reached, findings, stream(seed, "acceptance", number))
        volumes.append(hypervolume(vectors, reference))
    return volumes


def _trained(values: AnyArray, noise: float, draw: np.random.Generator) -> int:
    if not noise:
        return int(values.argmax())
    chances = np.exp((values - values.max()) / noise)
    return int(draw.choice(len(values), p=chances / chances.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    seeds = parser.parse_args().seeds
    for problem, noises in _NOISE.items():
        count = _CANDIDATES[problem]
        heads = " | ".join(f"{count * shown} candidates" for shown in _SHOWN)
        for noise in noises:
            print(f"\n{problem}, noise {noise:g}, mean hypervolume (sd) over {seeds} seeds\n")
            print(f"| generator | {heads} |\n| --- |{' --- |' * len(_SHOWN)}")
            for name, cls in sorted(generators().items()):
                runs = [
                    searched(cls(), problem, max(_SHOWN), count, s, noise) for s in range(seeds)
                ]
                volumes = np.array(runs)[:, np.array(_SHOWN) - 1]
                cells = zip(volumes.mean(axis=0), volumes.std(axis=0), strict=True)
                print(f"| {name} | " + " | ".join(f"{m:.1f} ({s:.1f})" for m, s in cells) + " |")


if __name__ == "__main__":
    main()
