"""Execution of searches: from a configuration to a directory with a front of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from comity.core.devices import check_device, placed
from comity.core.locks import held
from comity.core.pareto import above, hypervolume
from comity.core.storage import remove_leftovers
from comity.core.threads import limited
from comity.core.typing import BoolArray, FloatArray
from comity.problems import DataProblem, Problem
from comity.runs.base import MODELS
from comity.runs.cluster import Workers, check_workers, persevere
from comity.runs.events import EndEvent, Event, Notify, RoundEvent
from comity.runs.places import free_path
from comity.runs.schema import Metrics
from comity.runs.search_schema import FrontPoint, SearchControl, SearchResults, SearchVerdict
from comity.searches.archive import counted_front
from comity.searches.configuration import (
    SearchConfiguration,
    configure_search,
    split_search_settings,
)
from comity.searches.directory import CONTROL, Search
from comity.searches.effort import effort_of
from comity.searches.mofld import MOFLD, source, total_rounds
from comity.searches.verdict import search_verdict


def start_search(values: Mapping[str, Any], out: str | Path | None = None) -> Search:
    """Configure a search and create its directory; nothing is trained yet.

    Args:
        values: Settings as a TOML file holds them; those of the search may stand outside its
            table.
        out: The directory to create; default: a new one under ``runs/``.
    """
    configuration = configure_search(split_search_settings(values))
    check_device(configuration.federation.device)
    if out is None:
        problem, seed = configuration.federation.problem_name, f"seed{configuration.seed}"
        out = free_path(problem, "search", configuration.label, seed)
    return Search.create(Path(out), configuration)


def rounds_in_all(configuration: SearchConfiguration) -> int:
    """Return the rounds of a search and of its control, for progress bars."""
    return total_rounds(configuration) * (2 if _has_control(configuration) else 1)


def execute_search(search: Search, workers: Workers = 1, notify: Notify | None = None) -> Search:
    """Bring a search to its end, from its last checkpoint or from the start.

    Args:
        search: The directory of the search.
        workers: Processes that train clients, or a cluster.
        notify: Called with each event of the search and of its control.
    """
    check_workers(workers)
    with held(search.path):
        if not search.finished:  # another process may just have finished it
            remove_leftovers(search.path, search.path / MODELS)
            persevere(search, partial(_execute, search, workers, notify))
    return search


def _execute(search: Search, workers: Workers, notify: Notify | None) -> None:
    """Bring a search to its end; arguments as of `execute_search`."""
    configuration = search.configuration

    def forward(event: Event) -> None:
        if isinstance(event, RoundEvent):
            event = replace(event, total=rounds_in_all(configuration))
        if notify is not None:
            notify(event)

    federation = configuration.federation
    check_device(federation.device)
    with limited(federation.threads), placed(federation.device):
        mofld = MOFLD(search, workers, forward)
        mofld.run()
        archive = mofld.state.archive
        assert archive.models is not None
        tested = mofld.evaluation.evaluate(archive.models, "test")
        points = search.save_front(archive, tested)
        results = _summarise(mofld, tested, points)
        seconds = mofld.state.seconds
    if _has_control(configuration):
        results["control"] = _control(search, workers, forward)
    search.save_schema(configuration.federation)
    search.save_results({"verdict": search_verdict(results), **results}, seconds)
    if not configuration.federation.keep_checkpoint:
        search.drop_checkpoint()
    forward(EndEvent(**source(search), seconds=seconds, results=search.results))


def execute_search_at(path: Path, notify: Notify) -> None:
    """Execute the search in a directory in this process."""
    execute_search(Search.open(path), notify=notify)


def _has_control(configuration: SearchConfiguration) -> bool:
    return configuration.search.control and configuration.search.generator != "random"


def _control(search: Search, workers: Workers, notify: Notify) -> SearchControl:
    """Execute the same search with uniformly random weights, the control of its generator."""
    configuration = search.configuration
    before = total_rounds(configuration)

    def forward(event: Event) -> None:
        if isinstance(event, RoundEvent):
            event = replace(event, done=before + event.done)
        notify(replace(event, control=True))

    control = search.control
    if control is None:
        settings = configuration.search.model_copy(update={"generator": "random"})
        random = SearchConfiguration(settings, {}, configuration.federation)
        control = Search.create(search.path / CONTROL, random)
    if not control.finished:
        execute_search(control, workers, forward)
    results = control.results
    return {
        "generator": "random",
        "metrics": results["metrics"],
        "candidates": results["candidates"],
        **effort_of(results),
    }


class _Optional(TypedDict, total=False):
    verdict: SearchVerdict
    optimum: Metrics
    control: SearchControl
    episodes: dict[str, int]
    samples: dict[str, int]
    dropped: int
    environment_steps_per_client: int
    training_steps_per_client: int


def _summarise(mofld: MOFLD, tested: FloatArray, points: list[FrontPoint]) -> SearchResults:
    """Return the results of a search.

    Args:
        mofld: The search after its last iteration.
        tested: The archive's vectors in the test (points x objectives).
        points: The archive as `Search.save_front` describes it.
    """
    configuration, archive = mofld.configuration, mofld.state.archive
    problem, federation, settings = (
        configuration.problem,
        configuration.federation,
        configuration.search,
    )
    reference = settings.reference_point

    def measures(vectors: FloatArray) -> Metrics:
        return problem.front_measures(vectors, reference)

    last = mofld.state.history[-1]
    counted = problem.counts(tested)
    known = problem.front()
    optional: _Optional = {}
    if known is not None:
        optional["optimum"] = {"hypervolume": hypervolume(known, reference)}
    if isinstance(problem, DataProblem):
        optional["samples"] = mofld.evaluation.sizes()
        optional["dropped"] = int((~counted).sum())
        optional["training_steps_per_client"] = last["training_steps"] // federation.clients
    else:
        steps = last["environment_steps"]
        optional["episodes"] = mofld.evaluation.sizes()
        clients_steps = steps["training"] + steps["validation"]
        optional["environment_steps_per_client"] = clients_steps // federation.clients
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
        "metrics": measures(tested[counted]),
        "metrics_evaluation": measures(archive.vectors[problem.counts(archive.vectors)]),
        "cut_by_reference_point": int((~above(tested, reference)).sum()),
        "trivial": measures(mofld.evaluation.trivial()),
        **optional,
        "front": [points[place] for place in np.flatnonzero(_on_front(problem, points))],
        "communication": last["communication"],
        **effort_of(last),
    }


def _on_front(problem: Problem, points: list[FrontPoint]) -> BoolArray:
    """Mark the points that are non-dominated in the test, too."""
    vectors = np.array([list(point["objectives"].values()) for point in points])
    return counted_front(vectors, problem.counts)
