"""Sources of values, from general defaults to the user's, and their order.

The papers' settings for an algorithm on a problem are in ``reproductions/presets.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from comity.algorithms import Algorithm
from comity.algorithms.wrappers import Wrapper
from comity.configuration.run import EPISODES, RUN_SETTINGS
from comity.learners import Learner, LearnerSettings
from comity.problems import EnvironmentProblem, Problem

PRESETS = Path(__file__).parents[1] / "reproductions" / "presets.toml"


class Layer(NamedTuple):
    """Values from one source, by the part that they belong to; empty where it sets nothing."""

    run: Mapping[str, Any] = {}
    learner: Mapping[str, Any] = {}
    algorithm: Mapping[str, Any] = {}
    wrapper: Mapping[str, Any] = {}


@cache
def presets() -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Return the papers' settings by problem, algorithm and part of a `Layer`. Read only."""
    with PRESETS.open("rb") as file:
        return tomllib.load(file)


def preset(problem: str, algorithm: str) -> Layer:
    """Return the papers' settings for an algorithm on a problem, both by name."""
    return Layer(**presets().get(problem, {}).get(algorithm, {}))


def merged(layers: Sequence[Layer]) -> Layer:
    """Return one layer in which a later layer wins over an earlier one, setting by setting."""
    parts = zip(*layers, strict=True)
    return Layer(*({k: v for source in part for k, v in source.items()} for part in parts))


@dataclass(frozen=True)
class Choice:
    """The user's values, and the registered parts that they name."""

    values: Mapping[str, Any]
    problem: Problem
    learner: type[Learner]
    learner_settings: type[LearnerSettings]
    algorithm: type[Algorithm]
    wrapper: type[Wrapper] | None

    @property
    def name(self) -> str:
        """The algorithm's name."""
        return self.algorithm.declaration.name

    @property
    def tables(self) -> tuple[str, ...]:
        """Names under which tables of settings may be among the values."""
        wrapper = () if self.wrapper is None else (self.wrapper.declaration.name,)
        return self.name, self.problem.learner, *wrapper

    @property
    def user_learner(self) -> Mapping[str, Any]:
        """The user's settings of the learner."""
        table: Mapping[str, Any] = self.values.get(self.problem.learner, {})
        return table

    def layers(self) -> list[Layer]:
        """Return all sources of values, later ones winning; general defaults are the fields'."""
        problem, values = self.problem, self.values
        paper = preset(problem.name, self.name)
        evaluation = {}
        if isinstance(problem, EnvironmentProblem):
            evaluation = {name: getattr(problem, name) for name in EPISODES}
        learner = self.user_learner
        if "local_steps" in learner and "local_epochs" in {**problem.defaults, **paper.learner}:
            learner = {"local_epochs": 0, **learner}  # steps replace epochs
        user = Layer(
            run={key: value for key, value in values.items() if key in RUN_SETTINGS},
            learner=learner,
            algorithm=values.get(self.name, {}),
            wrapper={} if self.wrapper is None else values.get(self.wrapper.declaration.name, {}),
        )
        return [
            Layer(run={**evaluation, **problem.run_defaults}, learner=problem.defaults),
            Layer(run=self.algorithm.run_defaults),
            paper,
            user,
        ]
