"""Baselines beside the models of clients with data: the constant classifier, the strict point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comity.core.typing import FloatArray
from comity.problems import Problem
from comity.runs.schema import ComparisonResults, Metrics, Results

CONSTANT = "constant classifier"


@dataclass(frozen=True)
class Baselines:
    """One objective vector each, or None; problems with environments have neither."""

    trivial: FloatArray | None
    """The constant classifier, mean over clients."""
    strict: FloatArray | None
    """The strict reference point."""


def baselines_of(results: Results, problem: Problem) -> Baselines:
    """Return the baselines of a run."""
    return _baselines(results["trivial"], results.get("strict_reference_point"), problem)


def comparison_baselines(
    comparison: ComparisonResults, first: Results, problem: Problem
) -> Baselines:
    """Return the baselines of a comparison, with the strict reference point of its first run."""
    return _baselines(comparison["trivial"], first.get("strict_reference_point"), problem)


def _baselines(trivial: Metrics, strict: Sequence[float] | None, problem: Problem) -> Baselines:
    means = [trivial.get(objective.name) for objective in problem.objectives]
    point = np.array(means, dtype=float)
    return Baselines(
        point if np.isfinite(point).all() else None,
        None if strict is None else np.array(strict, dtype=float),
    )
