"""Sources of values, from general defaults to the user's, and their order.

The papers' settings for an algorithm on a problem are in ``reproductions/presets.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from comity.algorithms import Algorithm
from comity.algorithms.wrappers import Wrapper
from comity.configuration.run import DEFAULT_PRESET, EPISODES, RUN_SETTINGS
from comity.errors import UserError, unknown
from comity.learners import Learner, LearnerSettings
from comity.problems import EnvironmentProblem, Problem

PRESETS = Path(__file__).parents[1] / "reproductions" / "presets.toml"
_NAMED = "preset"
"""Table of the file that holds named presets; the others are problems."""


class Layer(NamedTuple):
    """Values from one source, by the part that they belong to; empty where it sets nothing."""

    run: Mapping[str, Any] = {}
    learner: Mapping[str, Any] = {}
    algorithm: Mapping[str, Any] = {}
    wrapper: Mapping[str, Any] = {}


@dataclass(frozen=True)
class PresetEntry:
    """Settings of a named preset for some problems and algorithms."""

    source: str
    """Paper, section and table."""
    problems: tuple[str, ...]
    """Patterns of the problems' names, e.g. ``cifar10*``."""
    algorithms: tuple[str, ...]
    """Patterns of the algorithms' names."""
    layer: Layer

    def covers(self, problem: str, algorithm: str) -> bool:
        """Return whether the entry is about an algorithm on a problem, both by name."""
        return any(fnmatchcase(problem, pattern) for pattern in self.problems) and any(
            fnmatchcase(algorithm, pattern) for pattern in self.algorithms
        )


@cache
def _file() -> dict[str, Any]:
    with PRESETS.open("rb") as file:
        return tomllib.load(file)


@cache
def presets() -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Return the default presets by problem, algorithm and part of a `Layer`. Read only."""
    return {problem: table for problem, table in _file().items() if problem != _NAMED}


@cache
def named_presets() -> dict[str, tuple[PresetEntry, ...]]:
    """Return the entries of each named preset: the first covers all that it is about.

    The others refine it; of two that cover the same, the later wins.
    """
    return {name: entries_of(tables) for name, tables in _file()[_NAMED].items()}


def entries_of(tables: Sequence[Mapping[str, Any]]) -> tuple[PresetEntry, ...]:
    """Return tables with source, problems, algorithms and parts as entries."""
    return tuple(
        PresetEntry(
            table["source"],
            tuple(table["problems"]),
            tuple(table["algorithms"]),
            Layer(**{part: table[part] for part in Layer._fields if part in table}),
        )
        for table in tables
    )


def preset(problem: str, algorithm: str, name: str = DEFAULT_PRESET) -> Layer:
    """Return the papers' settings for an algorithm on a problem.

    Args:
        problem: Name of the problem.
        algorithm: Name of the algorithm.
        name: Name of the preset. A named one wins over the default, setting by setting.

    Raises:
        UserError: there is no such preset, or it is not about this problem and algorithm.
    """
    default = Layer(**presets().get(problem, {}).get(algorithm, {}))
    if name == DEFAULT_PRESET:
        return default
    if name not in named_presets():
        raise unknown("preset", name, (DEFAULT_PRESET, *named_presets()))
    entries = named_presets()[name]
    if not entries[0].covers(problem, algorithm):
        raise UserError(
            f"preset = {name} has no settings for {algorithm} on {problem}: comity list presets "
            f"shows what it covers; say preset = {DEFAULT_PRESET} or set the values yourself."
        )
    layers = [entry.layer for entry in entries if entry.covers(problem, algorithm)]
    return merged([default, *layers])


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
    wrappers: Mapping[str, type[Wrapper]]
    """By name, in their order."""

    @property
    def name(self) -> str:
        """The algorithm's name."""
        return self.algorithm.declaration.name

    @property
    def tables(self) -> tuple[str, ...]:
        """Names under which tables of settings may be among the values."""
        return self.name, self.problem.learner, *self.wrappers

    @property
    def user_learner(self) -> Mapping[str, Any]:
        """The user's settings of the learner."""
        table: Mapping[str, Any] = self.values.get(self.problem.learner, {})
        return table

    def layers(self) -> list[Layer]:
        """Return all sources of values, later ones winning; general defaults are the fields'."""
        problem, values = self.problem, self.values
        paper = preset(problem.name, self.name, str(values.get("preset", DEFAULT_PRESET)))
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
            wrapper={name: values[name] for name in self.wrappers if name in values},
        )
        return [
            Layer(run={**evaluation, **problem.run_defaults}, learner=problem.defaults),
            Layer(run=self.algorithm.run_defaults, learner=self.algorithm.learner_defaults),
            paper,
            user,
        ]
