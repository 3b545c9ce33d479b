"""Results of models that take any preference: what clients reach at many of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comity.core.pareto import reach
from comity.core.spans import dominated_share, regrets
from comity.problems import EnvironmentProblem, Problem
from comity.runs.schema import Results
from comity.runs.span_schema import Served, SpanResult
from comity.runs.spans import Spans


def span_result(spans: Spans, problem: Problem, attackers: Sequence[int] = ()) -> SpanResult:
    """Return what each client's model reaches over many preferences.

    Args:
        spans: The preferences and the objective vectors that clients reach at them.
        problem: The problem, for its reference point and, in environments, its best returns.
        attackers: Clients that do not count for means.
    """
    volumes = reach(spans.vectors, problem.reference_point)
    result: SpanResult = {
        "preferences": len(spans.preferences),
        "hypervolume": float(np.delete(volumes, list(attackers)).mean()),
        "per_client": volumes.tolist(),
    }
    if isinstance(problem, EnvironmentProblem):
        result["served"] = _served(spans, problem, attackers)
    return result


def add_span_metrics(results: Results) -> None:
    """Put means of what models reach over many preferences among the metrics of kept models."""
    spanned, metrics = results["spanned"], results["metrics"]
    if "own_hypervolume" in metrics:
        # a client reaches all that its model spans, not only the point that it prefers
        metrics["own_hypervolume"] = spanned["hypervolume"]
        # spans are measured on kept models only
        results.get("metrics_last", {}).pop("own_hypervolume", None)
    if "regret" in spanned.get("served", {}):
        metrics["served_regret"] = spanned["served"]["regret"]["mean"]


def _served(spans: Spans, problem: EnvironmentProblem, attackers: Sequence[int]) -> Served:
    """Return what policies earn at each preference, beside the best that is known."""
    honest = np.delete(spans.vectors, list(attackers), axis=0)
    result: Served = {
        "preferences": spans.preferences.tolist(),
        "returns": honest.mean(axis=0).round(6).tolist(),
        "dominated": float(np.mean([dominated_share(vectors) for vectors in honest])),
    }
    if (best := problem.target()) is not None:
        missed = regrets(spans.preferences, spans.vectors, best)
        counted = np.delete(missed, list(attackers), axis=0)
        result["regret"] = {
            "against": problem.target_name,
            "mean": float(counted.mean()),
            "per_preference": counted.mean(axis=0).round(6).tolist(),
            "per_client": missed.mean(axis=1).round(6).tolist(),
        }
    return result
