"""Growth of a search's archive over its iterations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.report.measures import target_label
from comity.report.terms import ENVIRONMENTS, search_terms
from comity.runs.search_schema import (
    GrowthEntry,
    SearchComparisonResults,
    SearchEntry,
    SearchResults,
)
from comity.searches import Search
from comity.searches.comparison import SearchComparison, growth
from comity.searches.effort import mean_steps

CONTROL = "random weights (control)"
HYPERVOLUME = "hypervolume (server's evaluation)"
_MILESTONES = 4


@dataclass(frozen=True)
class Growth:
    """Hypervolume of a search's archive after each iteration: mean and spread over seeds."""

    label: str
    x: FloatArray
    """Candidates or steps so far, after each iteration."""
    mean: FloatArray
    std: FloatArray


@dataclass(frozen=True)
class Growths:
    """Growth of several searches, and the optimum that they could reach."""

    lines: list[Growth]
    across: str
    """The label of x."""
    reference_point: list[float]
    optimum: float | None
    target: str
    """The name of the points with the optimal hypervolume."""

    def missing(self, line: Growth) -> FloatArray:
        """Return the distance to the optimum; zero for noise and above a reference set."""
        assert self.optimum is not None
        distance = self.optimum - line.mean
        return np.where(distance > 1e-9 * abs(self.optimum), distance, 0.0)


def growth_of(search: Search) -> Growths:
    """Return the growth of a search and its control, if any, against the candidates tried."""
    searches = {search.configuration.label: growth([search])}
    if search.control is not None:
        searches[CONTROL] = growth([search.control])
    problem, results = search.configuration.problem, search.results
    return _growths(searches, False, "candidates evaluated", results, problem)


def growths_of(comparison: SearchComparison) -> Growths:
    """Return the growth of the searches of a comparison against their steps."""
    searches = {row["search"]: row["growth"] for row in comparison.results["rows"]}
    problem = next(iter(comparison.searches.values()))[0].configuration.problem
    terms = search_terms(comparison.results["rows"][0])
    across = f"{terms.unit}, all clients" + (" and the server" if terms is ENVIRONMENTS else "")
    return _growths(searches, True, across, comparison.results, problem)


def _growths(
    searches: Mapping[str, Sequence[GrowthEntry]],
    by_steps: bool,
    across: str,
    results: SearchResults | SearchComparisonResults,
    problem: Problem,
) -> Growths:
    lines = [
        Growth(
            label,
            x=np.array(
                [mean_steps(entry) if by_steps else entry["evaluations"] for entry in entries],
                dtype=float,
            ),
            mean=np.array([entry["hypervolume"]["mean"] for entry in entries], dtype=float),
            std=np.array([entry["hypervolume"]["std"] or 0.0 for entry in entries]),
        )
        for label, entries in searches.items()
    ]
    optimum = results.get("optimum", {}).get("hypervolume")
    return Growths(lines, across, results["reference_point"], optimum, target_label(problem))


@dataclass(frozen=True)
class Milestone:
    """Front of the archive at one time of a search."""

    evaluations: int
    front: FloatArray
    fresh: FloatArray
    """The points that no earlier milestone had."""
    lateness: float
    """From 0, the first milestone, to 1, the end of the search."""

    @property
    def label(self) -> str:
        """The time as text."""
        return f"after {self.evaluations} candidate{'s' if self.evaluations > 1 else ''}"


def milestones(history: Sequence[SearchEntry]) -> list[Milestone]:
    """Return the first iteration, the last one, and about a third and two thirds of the way."""
    indices = np.unique(np.linspace(0, len(history) - 1, _MILESTONES).round().astype(int))
    earlier: set[tuple[float, ...]] = set()
    times = []
    for index in indices.tolist():
        entry = history[index]
        front = np.unique(np.array(entry["front"], dtype=float), axis=0)
        new = [point for point in front if tuple(point.tolist()) not in earlier]
        fresh = np.array(new).reshape(-1, front.shape[1])
        earlier.update(tuple(point.tolist()) for point in fresh)
        # a search of a single iteration is at its end
        lateness = index / (len(history) - 1) if len(history) > 1 else 1.0
        times.append(Milestone(entry["evaluations"], front, fresh, lateness))
    return times
