"""Executing searches: from a configuration to a directory with a front of models."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from comity.core.pareto import above, hypervolume, nondominated, set_measures
from comity.core.threads import limited
from comity.core.typing import BoolArray, FloatArray, OnRound
from comity.errors import UserError
from comity.problems import Problem, register
from comity.problems.simulators import idle_returns
from comity.runs.execute import check_workers, free_path
from comity.searches.configuration import (
    SearchConfiguration,
    configure_search,
    split_search_settings,
)
from comity.searches.directory import CONTROL, Search
from comity.searches.mofld import MOFLD, total_rounds


def search(
    problem: str | Problem,
    *,
    out: str | Path | None = None,
    workers: int = 1,
    on_round: OnRound | None = None,
    **settings: Any,
) -> Search:
    """Search for a whole front: ``comity.search("deep-sea-treasure", generator="gap")``.

    ``settings`` are the search's by name (``iterations``, ``candidates``, ``warm_start``, …), those
    of its federations (``algorithm``, ``clients``, ``rounds``, …), and tables by the name of the
    algorithm, the learner or the generator.
    """
    check_workers(workers)
    if isinstance(problem, Problem):
        problem = register(problem).name
    configuration = configure_search(split_search_settings({"problem": problem, **settings}))
    path = Path(out) if out is not None else free_path(default_name(configuration))
    return execute_search(Search.create(path, configuration), workers, on_round)


def resume_search(path: str | Path, workers: int = 1, on_round: OnRound | None = None) -> Search:
    """Go on with an interrupted search; it ends as if it had never been interrupted."""
    found = Search.open(path)
    if found.finished:
        raise UserError(f"{path} is finished already; see it with: comity report {path}")
    return execute_search(found, workers, on_round)


def default_name(configuration: SearchConfiguration) -> str:
    problem = configuration.federation.problem_name.replace(":", "-")
    return f"{problem}-search-{configuration.label}-seed{configuration.seed}"


def rounds_in_all(configuration: SearchConfiguration) -> int:
    """Rounds of a search and of its control, for progress bars."""
    return total_rounds(configuration) * (2 if _wants_control(configuration) else 1)


def execute_search(found: Search, workers: int = 1, on_round: OnRound | None = None) -> Search:
    """Bring a search to its end, from its last checkpoint or from the start."""
    check_workers(workers)
    configuration = found.configuration

    def tell(done: int, total: int, text: str) -> None:
        if on_round is not None:
            on_round(done, rounds_in_all(configuration), text)

    started = time.monotonic()
    with limited(configuration.federation.threads):
        mofld = MOFLD(found, workers, tell)
        mofld.run()
        assert mofld.archive.models is not None
        episodes = configuration.federation.test_episodes
        tested = mofld.evaluation.evaluate(mofld.archive.models, "test", episodes)
        points = found.save_front(mofld.archive, tested)
        results = _summarise(mofld, tested, points)
        seconds = mofld.seconds + time.monotonic() - started
    if _wants_control(configuration):
        results["control"] = _control(found, workers, tell)
    found.save_results(results, seconds)

    from comity.report import write_search_report  # drawing is slow to import and comes last

    write_search_report(found)
    return found


def _wants_control(configuration: SearchConfiguration) -> bool:
    return configuration.search.control and configuration.search.generator != "random"


def _control(found: Search, workers: int, tell: OnRound) -> dict[str, Any]:
    """The same search with uniformly random weights: what the generator must be held against."""
    configuration = found.configuration
    before = total_rounds(configuration)

    def later(done: int, total: int, text: str) -> None:
        tell(before + done, total, f"control: {text}")

    control = found.control
    if control is None:
        settings = configuration.search.model_copy(update={"generator": "random"})
        random = SearchConfiguration(settings, {}, configuration.federation)
        control = Search.create(found.path / CONTROL, random)
    if not control.finished:
        execute_search(control, workers, later)
    results = control.results
    return {
        "generator": "random",
        "metrics": results["metrics"],
        "candidates": results["candidates"],
        "environment_steps": results["environment_steps"],
    }


def _summarise(mofld: MOFLD, tested: FloatArray, points: list[dict[str, object]]) -> dict[str, Any]:
    """The results of a search, from its archive as tested."""
    configuration = mofld.configuration
    problem, federation, settings = (
        configuration.problem,
        configuration.federation,
        configuration.search,
    )
    reference, target = settings.reference_point, problem.target()

    def measured(vectors: FloatArray) -> dict[str, float]:
        return set_measures(vectors, reference, target)

    last = mofld.history[-1]
    steps = last["environment_steps"]
    results: dict[str, Any] = {
        "problem": federation.problem_name,
        "algorithm": federation.algorithm,
        "generator": settings.generator,
        "seed": federation.seed,
        "clients": federation.clients,
        "rounds": federation.rounds,
        "iterations": len(mofld.history),
        "candidates": last["evaluations"],
        "spread": settings.spread,
        "warm_start": settings.warm_start,
        "harvest": settings.harvest,
        "keep": federation.keep,
        "reference_point": list(reference),
        "episodes": {"evaluation": settings.evaluation_episodes, "test": federation.test_episodes},
        "metrics": measured(tested),
        "metrics_evaluation": measured(mofld.archive.vectors),
        "cut_by_reference_point": int((~above(tested, reference)).sum()),
        "trivial": measured(
            idle_returns(problem, [0], federation.seed, federation.test_episodes).round(6)
        ),
    }
    known = problem.front()
    if known is not None:
        results["optimum"] = {"hypervolume": hypervolume(known, reference)}
    results["front"] = [
        point for point, best in zip(points, _on_front(points), strict=True) if best
    ]
    results["communication"] = last["communication"]
    results["environment_steps"] = steps
    results["environment_steps_per_client"] = (steps["training"] + steps["validation"]) // (
        federation.clients
    )
    return results


def _on_front(points: list[dict[str, object]]) -> BoolArray:
    """Points that are still non-dominated on test episodes."""
    values = []
    for point in points:
        objectives = point["objectives"]
        assert isinstance(objectives, dict)
        values.append(list(objectives.values()))
    return nondominated(np.array(values))
