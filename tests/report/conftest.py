"""Runs to report on: one real and small, others with a history made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from histories import Entry, entry, iteration

import comity
from comity.configuration import configure
from comity.core.pareto import set_measures
from comity.runs.directory import Run
from comity.runs.results import summarise
from comity.searches import Search, configure_search
from comity.searches.directory import CONTROL


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A real run of FedPref, small enough for every test session."""
    return comity.run(
        "deep-sea-treasure",
        algorithm="fedpref",
        clients=4,
        rounds=3,
        guard=True,
        dqn={"local_steps": 64, "learning_starts": 16},
        out=tmp_path_factory.mktemp("real") / "run",
    )


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Run]:
    """Write a finished run whose final vectors and history are known."""

    def make(
        vectors: Sequence[Sequence[float]],
        history: Sequence[Entry] | None = None,
        last: Sequence[Sequence[float]] | None = None,
        name: str = "made",
        **settings: Any,
    ) -> Run:
        kept = np.array(vectors, dtype=float)
        values = {"problem": "deep-sea-treasure", "clients": len(kept), "rounds": 2, **settings}
        run = Run.create(tmp_path / name, configure(values))
        for line in history or [entry(1, kept), entry(2, kept), entry(3, kept)]:
            run.append_history(line)
        final = kept if last is None else np.array(last, dtype=float)
        run.save_results(summarise(run.configuration, kept, final, run.history), 1.0)
        return run

    return make


@pytest.fixture
def made_search(tmp_path: Path) -> Callable[..., Search]:
    """Write a finished search with two candidates per iteration, whose fronts are known."""

    def make(
        fronts: Sequence[Sequence[Sequence[float]]],
        hypervolumes: Sequence[float],
        problem: str = "deep-sea-treasure",
        name: str = "search",
        **results: Any,
    ) -> Search:
        generator = "random" if name.endswith(CONTROL) else "gap"
        settings = {"candidates": 2, "generator": generator}
        configuration = configure_search({"problem": problem, "clients": 2, "search": settings})
        search = Search.create(tmp_path / name, configuration)
        objectives = [objective.name for objective in configuration.problem.objectives]
        corners = np.eye(len(objectives))[:2]
        for number, front in enumerate(fronts):
            search.append_history(iteration(number, hypervolumes[number], front, corners))
        reference = configuration.search.reference_point
        last = search.history[-1]
        steps = last["environment_steps"]
        told: dict[str, Any] = {
            "problem": problem,
            "algorithm": "fedavg",
            "generator": generator,
            "seed": configuration.seed,
            "clients": 2,
            "rounds": 3,
            "iterations": len(fronts),
            "candidates": last["evaluations"],
            "spread": False,
            "warm_start": False,
            "harvest": True,
            "keep": "best",
            "reference_point": list(reference),
            "episodes": {"evaluation": 1, "test": 5},
            "metrics": set_measures(np.array(fronts[-1]), reference, None),
            "cut_by_reference_point": 0,
            "trivial": {"hypervolume": 0.0},
            "front": [
                {
                    "point": number,
                    "objectives": dict(zip(objectives, vector, strict=True)),
                    "weight": corners[1].tolist(),
                    "iteration": 1,
                    "candidate": 1,
                    "round": number or None,
                    "model": f"models/point-{number}.safetensors",
                }
                for number, vector in enumerate(fronts[-1])
            ],
            "environment_steps": steps,
            "environment_steps_per_client": (steps["training"] + steps["validation"]) // 2,
        }
        search.save_results({**told, **results}, 1.0)
        return search

    return make
