"""Comity: federated learning among participants who want different things.

Everything public is reachable from here; importing it costs nothing until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from comity.version import __version__

if TYPE_CHECKING:
    from comity.algorithms import Algorithm, Round, algorithm
    from comity.comparison import Comparison, compare, open
    from comity.errors import UserError
    from comity.execution import resume, run
    from comity.fleet import Fleet
    from comity.mixing import Mixing
    from comity.problems import Objective, Problem
    from comity.runs import Run

_HOMES = {
    "Algorithm": "comity.algorithms",
    "Comparison": "comity.comparison",
    "Fleet": "comity.fleet",
    "Mixing": "comity.mixing",
    "Objective": "comity.problems",
    "Problem": "comity.problems",
    "Round": "comity.algorithms",
    "Run": "comity.runs",
    "UserError": "comity.errors",
    "algorithm": "comity.algorithms",
    "compare": "comity.comparison",
    "open": "comity.comparison",
    "resume": "comity.execution",
    "run": "comity.execution",
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
    "Fleet",
    "Mixing",
    "Objective",
    "Problem",
    "Round",
    "Run",
    "UserError",
    "__version__",
    "algorithm",
    "compare",
    "open",
    "resume",
    "run",
]
