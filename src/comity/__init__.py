"""Comity: federated learning among participants who want different things.

Everything public is reachable from here. Importing the package is cheap: the module behind a name
is loaded when the name is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from comity.version import __version__ as __version__

if TYPE_CHECKING:  # the names of _NAMES, for type checkers
    from comity.algorithms import Algorithm as Algorithm
    from comity.algorithms import Round as Round
    from comity.algorithms import Survey as Survey
    from comity.algorithms import algorithm as algorithm
    from comity.algorithms.wrappers.confree import ConFREE as ConFREE
    from comity.api import algorithms as algorithms
    from comity.api import compare as compare
    from comity.api import compare_searches as compare_searches
    from comity.api import cross as cross
    from comity.api import generators as generators
    from comity.api import open as open
    from comity.api import pretrain as pretrain
    from comity.api import problems as problems
    from comity.api import reproduce as reproduce
    from comity.api import resume as resume
    from comity.api import run as run
    from comity.api import search as search
    from comity.api import tune as tune
    from comity.api import wrappers as wrappers
    from comity.callbacks import Callback as Callback
    from comity.callbacks import JsonLines as JsonLines
    from comity.callbacks import MLflow as MLflow
    from comity.callbacks import TensorBoard as TensorBoard
    from comity.callbacks import WandB as WandB
    from comity.core.fleet import Fleet as Fleet
    from comity.core.mixing import Mixing as Mixing
    from comity.core.mixing import Pick as Pick
    from comity.core.phases import Phase as Phase
    from comity.core.phases import View as View
    from comity.errors import UserError as UserError
    from comity.problems import DataProblem as DataProblem
    from comity.problems import EnvironmentProblem as EnvironmentProblem
    from comity.problems import Objective as Objective
    from comity.problems import Problem as Problem
    from comity.problems import Samples as Samples
    from comity.problems.own_datasets import from_datasets as from_datasets
    from comity.problems.own_table import table_problem as table_problem
    from comity.report.card import export as export
    from comity.report.objects import figure as figure
    from comity.report.objects import figures as figures
    from comity.report.plan import plan as plan
    from comity.runs.card import card as card
    from comity.runs.compare import Comparison as Comparison
    from comity.runs.directory import Run as Run
    from comity.runs.events import EndEvent as EndEvent
    from comity.runs.events import RoundEvent as RoundEvent
    from comity.runs.events import StartEvent as StartEvent
    from comity.runs.export import load_exported as load_exported
    from comity.runs.export import predict as predict
    from comity.runs.measuring import measure_rows as measure_rows
    from comity.runs.plans import Plan as Plan
    from comity.searches import Generator as Generator
    from comity.searches import Search as Search
    from comity.searches import generator as generator
    from comity.searches.comparison import SearchComparison as SearchComparison
    from comity.settings import setting as setting
    from comity.tuning import Tuning as Tuning

_NAMES = {
    "comity.algorithms": "Algorithm Round Survey algorithm",
    "comity.algorithms.wrappers.confree": "ConFREE",
    "comity.api": (
        "algorithms compare compare_searches cross generators open pretrain problems reproduce "
        "resume run search tune wrappers"
    ),
    "comity.callbacks": "Callback JsonLines MLflow TensorBoard WandB",
    "comity.core.fleet": "Fleet",
    "comity.core.mixing": "Mixing Pick",
    "comity.core.phases": "Phase View",
    "comity.errors": "UserError",
    "comity.problems": "DataProblem EnvironmentProblem Objective Problem Samples",
    "comity.problems.own_datasets": "from_datasets",
    "comity.problems.own_table": "table_problem",
    "comity.report.card": "export",
    "comity.report.objects": "figure figures",
    "comity.report.plan": "plan",
    "comity.runs.card": "card",
    "comity.runs.compare": "Comparison",
    "comity.runs.directory": "Run",
    "comity.runs.events": "EndEvent RoundEvent StartEvent",
    "comity.runs.export": "load_exported predict",
    "comity.runs.measuring": "measure_rows",
    "comity.runs.plans": "Plan",
    "comity.searches": "Generator Search generator",
    "comity.searches.comparison": "SearchComparison",
    "comity.settings": "setting",
    "comity.tuning": "Tuning",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'comity' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES])


class _Listing(ModuleType):
    """A room that can be called like the function of its name: ``comity.algorithms()``."""

    def __call__(self) -> Any:
        return getattr(import_module("comity.api"), self.__name__.rpartition(".")[2])()


class _Package(ModuleType):
    """This package, in which two functions have the names of rooms: both meanings work."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == "comity.api":
            value.__class__ = _Listing
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:
    __all__ = __dir__()
