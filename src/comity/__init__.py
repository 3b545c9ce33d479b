"""Comity: federated learning among participants who want different things.

Everything public is reachable from here; importing it costs nothing until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from comity.version import __version__

if TYPE_CHECKING:
    from comity.algorithms import Algorithm, Round, algorithm
    from comity.algorithms.confree import ConFREE
    from comity.comparison import Comparison, compare
    from comity.errors import UserError
    from comity.execution import resume, run
    from comity.fleet import Fleet
    from comity.mixing import Mixing
    from comity.opening import open
    from comity.pretraining import pretrain
    from comity.problems import DataProblem, EnvironmentProblem, Objective, Problem, Samples
    from comity.problems.described import table_problem
    from comity.runs import Run
    from comity.searches import Generator, Search, generator
    from comity.searches.comparison import compare_searches
    from comity.searches.execution import search
    from comity.serving import export, load_exported, predict

_HOMES = {
    "Algorithm": "comity.algorithms",
    "Comparison": "comity.comparison",
    "ConFREE": "comity.algorithms.confree",
    "DataProblem": "comity.problems",
    "EnvironmentProblem": "comity.problems",
    "Fleet": "comity.fleet",
    "Generator": "comity.searches",
    "Mixing": "comity.mixing",
    "Objective": "comity.problems",
    "Problem": "comity.problems",
    "Round": "comity.algorithms",
    "Run": "comity.runs",
    "Samples": "comity.problems",
    "Search": "comity.searches",
    "UserError": "comity.errors",
    "algorithm": "comity.algorithms",
    "compare": "comity.comparison",
    "compare_searches": "comity.searches.comparison",
    "export": "comity.serving",
    "generator": "comity.searches",
    "load_exported": "comity.serving",
    "open": "comity.opening",
    "predict": "comity.serving",
    "pretrain": "comity.pretraining",
    "resume": "comity.execution",
    "run": "comity.execution",
    "search": "comity.searches.execution",
    "table_problem": "comity.problems.described",
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
