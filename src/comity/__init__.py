"""Comity: federated learning among participants who want different things.

Everything public is reachable from here; importing it costs nothing until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from comity.version import __version__

if TYPE_CHECKING:
    from comity.algorithms import Algorithm, Round, algorithm
    from comity.algorithms.wrappers.confree import ConFREE
    from comity.core.fleet import Fleet
    from comity.core.mixing import Mixing
    from comity.errors import UserError
    from comity.opening import open
    from comity.pretraining import pretrain
    from comity.problems import DataProblem, EnvironmentProblem, Objective, Problem, Samples
    from comity.problems.own_table import table_problem
    from comity.runs.compare import Comparison, compare
    from comity.runs.directory import Run
    from comity.runs.execute import resume, run
    from comity.runs.export import export, load_exported, predict
    from comity.searches import Generator, Search, generator
    from comity.searches.comparison import compare_searches
    from comity.searches.execution import search

_HOMES = {
    "Algorithm": "comity.algorithms",
    "Comparison": "comity.runs.compare",
    "ConFREE": "comity.algorithms.wrappers.confree",
    "DataProblem": "comity.problems",
    "EnvironmentProblem": "comity.problems",
    "Fleet": "comity.core.fleet",
    "Generator": "comity.searches",
    "Mixing": "comity.core.mixing",
    "Objective": "comity.problems",
    "Problem": "comity.problems",
    "Round": "comity.algorithms",
    "Run": "comity.runs.directory",
    "Samples": "comity.problems",
    "Search": "comity.searches",
    "UserError": "comity.errors",
    "algorithm": "comity.algorithms",
    "compare": "comity.runs.compare",
    "compare_searches": "comity.searches.comparison",
    "export": "comity.runs.export",
    "generator": "comity.searches",
    "load_exported": "comity.runs.export",
    "open": "comity.opening",
    "predict": "comity.runs.export",
    "pretrain": "comity.pretraining",
    "resume": "comity.runs.execute",
    "run": "comity.runs.execute",
    "search": "comity.searches.execution",
    "table_problem": "comity.problems.own_table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'comity' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "Algorithm",
    "Comparison",
    "ConFREE",
    "DataProblem",
    "EnvironmentProblem",
    "Fleet",
    "Generator",
    "Mixing",
    "Objective",
    "Problem",
    "Round",
    "Run",
    "Samples",
    "Search",
    "UserError",
    "__version__",
    "algorithm",
    "compare",
    "compare_searches",
    "export",
    "generator",
    "load_exported",
    "open",
    "predict",
    "pretrain",
    "resume",
    "run",
    "search",
    "table_problem",
]
