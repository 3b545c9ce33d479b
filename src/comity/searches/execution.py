"""Execution of searches: from a configuration to a directory with a front of models."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import numpy as np

from comity.core.pareto import above, hypervolume, nondominated, set_measures
from comity.core.threads import limited
from comity.core.typing import BoolArray, FloatArray, OnRound
from comity.problems.simulators import idle_returns
from comity.runs.execute import check_workers
from comity.runs.schema import FrontPoint, Metrics, SearchControl, SearchResults
from comity.searches.configuration import SearchConfiguration
from comity.searches.directory import CONTROL, Search
from comity.searches.mofld import MOFLD, total_rounds


def rounds_in_all(configuration: SearchConfiguration) -> int:
    """Return the rounds of a search and of its control, for progress bars."""
    return total_rounds(configuration) * (2 if _has_control(configuration) else 1)


def execute_search(search: Search, workers: int = 1, on_round: OnRound | None = None) -> Search:
    """Bring a search to its end, from its last checkpoint or from the start.

    Args:
        search: The directory of the search.
        workers: The number of processes that train clients.
        on_round: Called after each round with rounds done, rounds in all, and a short text.
    """
    check_workers(workers)
    configuration = search.configuration

    def notify(done: int, total: int, text: str) -> None:
        if on_round is not None:
            on_round(done, rounds_in_all(configuration), text)

    with limited(configuration.federation.threads):
        mofld = MOFLD(search, workers, notify)
        mofld.run()
        archive = mofld.state.archive
        assert archive.models is not None
        episodes = configuration.federation.test_episodes
        tested = mofld.evaluation.evaluate(archive.models, "test", episodes)
        points = search.save_front(archive, tested)
        results = _summarise(mofld, tested, points)
        seconds = mofld.state.seconds
    if _has_control(configuration):
        results["control"] = _control(search, workers, notify)
    search.save_results(results, seconds)
    return search


def execute_search_at(path: Path, on_round: OnRound) -> None:
    """Execute the search in a directory in this process."""
    execute_search(Search.open(path), on_round=on_round)


def _has_control(configuration: SearchConfiguration) -> bool:
    return configuration.search.control and configuration.search.generator != "random"


def _control(search: Search, workers: int, on_round: OnRound) -> SearchControl:
    """Execute the same search with uniformly random weights, the control of its generator."""
    configuration = search.configuration
    before = total_rounds(configuration)

    def notify(done: int, total: int, text: str) -> None:
        on_round(before + done, total, f"control: {text}")

    control = search.control
    if control is None:
        settings = configuration.search.model_copy(update={"generator": "random"})
        random = SearchConfiguration(settings, {}, configuration.federation)
        control = Search.create(search.path / CONTROL, random)
    if not control.finished:
        execute_search(control, workers, notify)
    results = control.results
    return {
        "generator": "random",
        "metrics": results["metrics"],
        "candidates": results["candidates"],
        "environment_steps": results["environment_steps"],
    }


class _Optional(TypedDict, total=False):
    optimum: Metrics
    control: SearchControl


def _summarise(mofld: MOFLD, tested: FloatArray, points: list[FrontPoint]) -> SearchResults:
    """Return the results of a search.

    Args:
        mofld: The search after its last iteration.
        tested: The archive's vectors on test episodes (points x objectives).
        points: The archive as `Search.save_front` describes it.
    """
    configuration, archive = mofld.configuration, mofld.state.archive
    problem, federation, settings = (
        configuration.problem,
        configuration.federation,
        configuration.search,
    )
    reference, target = settings.reference_point, problem.target()

    def measures(vectors: FloatArray) -> Metrics:
        return set_measures(vectors, reference, target)

    last = mofld.state.history[-1]
    steps = last["environment_steps"]
    idle = idle_returns(problem, [0], federation.seed, federation.test_episodes).round(6)
    known = problem.front()
    optional: _Optional = {}
    if known is not None:
        optional["optimum"] = {"hypervolume": hypervolume(known, reference)}
    return {
        "problem": federation.problem_name,
        "algorithm": federation.algorithm,
        "generator": settings.generator,
        "seed": federation.seed,
        "clients": federation.clients,
        "rounds": federation.rounds,
        "iterations": len(mofld.state.history),
        "candidates": last["evaluations"],
        "spread": settings.spread,
        "warm_start": settings.warm_start,
        "harvest": settings.harvest,
        "keep": federation.keep,
        "reference_point": list(reference),
        "episodes": {"evaluation": settings.evaluation_episodes, "test": federation.test_episodes},
        "metrics": measures(tested),
        "metrics_evaluation": measures(archive.vectors),
        "cut_by_reference_point": int((~above(tested, reference)).sum()),
        "trivial": measures(idle),
        **optional,
        "front": [point for point, best in zip(points, _on_front(points), strict=True) if best],
        "communication": last["communication"],
        "environment_steps": steps,
        "environment_steps_per_client": (steps["training"] + steps["validation"])
        // federation.clients,
    }


def _on_front(points: list[FrontPoint]) -> BoolArray:
    """Mark the points that are still non-dominated on test episodes."""
    return nondominated(np.array([list(point["objectives"].values()) for point in points]))
