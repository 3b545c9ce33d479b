"""Measures behind PraFFL's figures 6 to 10 and theorem 5.8, per client and per seed.

Per client: of the vectors that its kept model reaches on test samples, one per preference. By
round: of the hypervolume on validation data, mean over clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from comity.core.pareto import front, nondominated
from comity.core.rates import fit_rate
from comity.core.spans import distance, distinct, monotony, rank_correlation, undominated, width
from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.runs.directory import Run
from comity.runs.reproduction_schema import PrintedValue
from comity.runs.schema import Spread
from comity.runs.spans import Spans
from comity.runs.spreads import spread

Shows = Literal["fronts", "splits", "responses", "losses", "rounds"]
"""Content of a table beside the hypervolume per client."""
Values = dict[str, float]
"""Measures by name."""

_IDEAL = (1.0, 1.0)  # no error and no disparity: the origin of the paper's axes


def span_measures(shows: Shows, runs: Mapping[str, Sequence[Run]]) -> dict[str, dict[str, Any]]:
    """Return what a table's rows have beside the hypervolume, by entry.

    ``measures`` are means over clients, with mean and spread over seeds; ``each`` has one list per
    seed of one table per client. Convergence has ``rounds`` instead of ``each``.

    Args:
        shows: What the table shows.
        runs: The runs of each entry, one per seed.
    """
    if shows == "rounds":
        return {entry: _convergence(seeds) for entry, seeds in runs.items()}
    if shows == "fronts":
        reached = {entry: [run.reached for run in seeds] for entry, seeds in runs.items()}
        return {entry: _tabled(_contested(entry, reached)) for entry in runs}
    return {
        entry: _tabled([_per_client(run, _MEASURES[shows]) for run in seeds])
        for entry, seeds in runs.items()
    }


def _tabled(each: list[list[Values]]) -> dict[str, Any]:
    """Return measures per seed and client, and their means."""
    names = each[0][0]
    means = {name: [np.mean([client[name] for client in run]) for run in each] for name in names}
    return {"measures": {name: _spread(values) for name, values in means.items()}, "each": each}


def _spread(values: Sequence[Any]) -> PrintedValue | Spread:
    """Return mean and standard deviation; None where a seed has no value."""
    if any(value is None for value in values):
        return {"mean": None, "std": None}
    return spread(values)


# -- the fronts of several algorithms ------------------------------------------------------


def _contested(entry: str, reached: Mapping[str, Sequence[FloatArray]]) -> list[list[Values]]:
    """Return how many vectors of each client's own front no other algorithm dominates."""
    each = []
    for seed, clients in enumerate(reached[entry]):
        others = [sets[seed] for name, sets in reached.items() if name != entry]
        each.append(
            [
                _undominated(vectors, [rivals[client] for rivals in others])
                for client, vectors in enumerate(clients)
            ]
        )
    return each


def _undominated(vectors: FloatArray, others: Sequence[FloatArray]) -> Values:
    best = front(vectors)
    left = undominated(best, np.concatenate(others)).sum() if others else len(best)
    return {"front": len(best), "undominated": int(left), "share": int(left) / len(best)}


# -- the front of one algorithm ------------------------------------------------------------


def _per_client(run: Run, measure: Callable[[Spans, int], Values]) -> list[Values]:
    spans = run.spans
    if spans is None or spans.losses is None:
        raise UserError(
            f"{run.path}: it was made before losses were kept. Choose another directory."
        )
    return [measure(spans, client) for client in range(len(spans.vectors))]


def _extent(spans: Spans, client: int) -> Values:
    vectors = spans.vectors[client]
    return {"width": width(vectors), "distance": distance(vectors, _IDEAL)}


def _steadiness(spans: Spans, client: int) -> Values:
    vectors, losses = spans.vectors[client], _losses(spans)[client]
    return {
        "monotony": monotony(spans.preferences, vectors),
        "monotony_of_losses": monotony(spans.preferences, -losses),
        "distinct": distinct(vectors),
    }


def _gap(spans: Spans, client: int) -> Values:
    """Return sizes of both fronts, what they share, and how alike losses and metrics rank."""
    vectors, losses = spans.vectors[client], _losses(spans)[client]
    best, cheapest = nondominated(vectors), nondominated(-losses)
    ranks = [
        rank_correlation(-loss, value) for loss, value in zip(losses.T, vectors.T, strict=True)
    ]
    return {
        "loss_front": int(cheapest.sum()),
        "front": int(best.sum()),
        "accuracy_agreement": ranks[0],
        "fairness_agreement": ranks[1],
    }


def _losses(spans: Spans) -> FloatArray:
    assert spans.losses is not None
    return spans.losses


_MEASURES: dict[Shows, Callable[[Spans, int], Values]] = {
    "splits": _extent,
    "responses": _steadiness,
    "losses": _gap,
}


# -- convergence ---------------------------------------------------------------------------


def _convergence(seeds: Sequence[Run]) -> dict[str, Any]:
    """Return the hypervolume by round and seed, and the rates that fit it."""
    curves = [_by_round(run) for run in seeds]
    rates = [fit_rate(curve) for curve in curves]
    mean = np.mean(curves, axis=0)
    fit = fit_rate(mean.tolist())
    names = ("limit", "factor", "explained", "explained_by_inverse")
    fitted = {
        name: _spread([None if rate is None else getattr(rate, name) for rate in rates])
        for name in names
    }
    first, last = ([curve[place] for curve in curves] for place in (0, -1))
    return {
        "measures": {"first_round": _spread(first), "last_round": _spread(last), **fitted},
        "rounds": curves,
        "fit": None if fit is None else fit._asdict(),
    }


def _by_round(run: Run) -> list[float]:
    """Return the mean validation hypervolume after each round, from the first."""
    values = {
        # what is delivered in a round is what the round before ended with
        entry["round"] - (not run.configuration.get_algorithm().select_after_training): value
        for entry in run.history
        if (value := entry.get("validation_hypervolume")) is not None
    }
    if {*range(1, run.configuration.rounds + 1)} - {*values}:
        raise UserError(
            f"{run.path}: its history lacks the validation hypervolume of some rounds; it needs "
            "keep_scope = federation and a run of this version. Choose another directory."
        )
    return [values[round] for round in range(1, run.configuration.rounds + 1)]
