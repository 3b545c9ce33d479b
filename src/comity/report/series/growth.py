"""What a search's history says over the iterations, as arrays: the data behind its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.measures import target_label
from comity.searches import Search
from comity.searches.comparison import SearchComparison, growth

CONTROL = "random weights (control)"
HYPERVOLUME = "hypervolume (server's evaluation)"
_MILESTONES = 4


@dataclass(frozen=True)
class Growth:
    """How the hypervolume of a search's archive grew: mean and spread over seeds."""

    label: str
    x: FloatArray
    """Candidates or environment steps so far, after each iteration."""
    mean: FloatArray
    std: FloatArray


@dataclass(frozen=True)
class Growths:
    """Searches that grow side by side, and what they could reach."""

    lines: list[Growth]
    across: str
    """What x counts."""
    reference_point: list[float]
    optimum: float | None
    target: str
    """What has the optimum."""

    def missing(self, line: Growth) -> FloatArray:
        """The distance to the optimum: zero for what is noise, or surpasses a reference set."""
        assert self.optimum is not None
        distance = self.optimum - line.mean
        return np.where(distance > 1e-9 * abs(self.optimum), distance, 0.0)


def growth_of(search: Search) -> Growths:
    """A search and, where it was run, its control against the candidates that they tried."""
    entries = {search.configuration.label: growth([search])}
    if search.control is not None:
        entries[CONTROL] = growth([search.control])
    problem, results = search.configuration.problem, search.results
    return _growths(entries, "evaluations", "candidates evaluated", results, problem)


def growths_of(comparison: SearchComparison) -> Growths:
    """The searches of a comparison against what they cost."""
    entries = {row["search"]: row["growth"] for row in comparison.results["rows"]}
    problem = next(iter(comparison.searches.values()))[0].configuration.problem
    across = "environment steps, all clients and the server"
    return _growths(entries, "environment_steps", across, comparison.results, problem)


def _growths(
    entries: Mapping[str, Sequence[Mapping[str, Any]]],
    x: str,
    across: str,
    results: Mapping[str, Any],
    problem: Problem,
) -> Growths:
    lines = [
        Growth(
            label,
            x=np.array([entry[x] for entry in own], dtype=float),
            mean=np.array([entry["hypervolume"]["mean"] for entry in own], dtype=float),
            std=np.array([entry["hypervolume"]["std"] for entry in own], dtype=float),
        )
        for label, own in entries.items()
    ]
    optimum = results.get("optimum", {}).get("hypervolume")
    return Growths(lines, across, results["reference_point"], optimum, target_label(problem))


@dataclass(frozen=True)
class Milestone:
    """The archive's front at one time of a search."""

    evaluations: int
    front: FloatArray
    fresh: FloatArray
    """The points that no earlier milestone had."""
    lateness: float
    """From 0, the first milestone, to 1, the end of the search."""

    @property
    def label(self) -> str:
        return f"after {self.evaluations} candidate{'s' if self.evaluations > 1 else ''}"


def milestones(history: Sequence[Mapping[str, Any]]) -> list[Milestone]:
    """The first iteration, the last one, and about a third and two thirds of the way."""
    places = np.unique(np.linspace(0, len(history) - 1, _MILESTONES).round().astype(int))
    seen: set[tuple[float, ...]] = set()
    found = []
    for place in places.tolist():
        entry = history[place]
        front = np.unique(np.array(entry["front"], dtype=float), axis=0)
        new = [point for point in front if tuple(point.tolist()) not in seen]
        fresh = np.array(new).reshape(-1, front.shape[1])
        seen.update(tuple(point.tolist()) for point in fresh)
        # a search of a single iteration is at its end
        lateness = place / (len(history) - 1) if len(history) > 1 else 1.0
        found.append(Milestone(entry["evaluations"], front, fresh, lateness))
    return found
