"""The thesis' ranges of accuracy and fairness on fronts: `comity reproduce thesis-A.13`.

Each table comes from the runs of a table of hypervolumes (see `fairness`), so in the same directory
it costs nothing. A range is the smallest and the largest value of an objective on the front of all
points that are not trivially fair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comity.core.pareto import front
from comity.core.typing import FloatArray
from comity.errors import unknown
from comity.problems import Problem
from comity.problems import find as find_problem
from comity.reproductions import fairness
from comity.reproductions.campaign import Campaign, runs_of
from comity.reproductions.printed import Needs, read_printed
from comity.runs.compare import Comparison

SWAPPED = (
    'The rows that the thesis calls "min" and "max" hold the range of accuracy and the range of '
    "fairness; they are put right here"
)


@dataclass(frozen=True)
class Printed:
    """A printed table of ranges."""

    file: str
    source: str
    """Table of hypervolumes of the same runs."""
    metric: str
    note: str
    """Known faults of the printed table."""


def _repeated(homogeneous: str, hypervolumes: str) -> str:
    return (
        f"The thesis prints the figures of table {homogeneous} (one preference for all clients) "
        f"again, which contradict its table {hypervolumes}: a misprint, do not compare. {SWAPPED}"
    )


_FRACTIONS = "The thesis prints shares, although its caption says that they are scaled by 100"
TABLES = {
    f"thesis-{table}": Printed(
        f"thesis_table_{table.replace('.', '_')}_ranges.csv", f"thesis-{source}", metric, note
    )
    for table, source, metric, note in (
        ("A.13", "5.2", "eo", SWAPPED),
        ("A.14", "5.3", "dp", SWAPPED),
        ("A.15", "5.4", "eo", _repeated("A.13", "5.4")),
        ("A.16", "5.5", "dp", _repeated("A.14", "5.5")),
        ("A.18", "A.17", "eo", SWAPPED),
        ("A.19", "A.17", "dp", SWAPPED),
        ("A.21", "A.20", "eo", _FRACTIONS),
        ("A.22", "A.20", "dp", _FRACTIONS),
    )
}
OBJECTIVES = {
    "eo": {"accuracy": "accuracy", "1-DEO": "fairness"},
    "dp": {"accuracy": "accuracy", "1-DDP": "fairness"},
}
"""Our objective by the thesis' name, by metric."""


def problems_of(table: str) -> list[str]:
    """Return the problems that a table has rows of."""
    return [f"{data}-{TABLES[table].metric}" for data in fairness.DATA]


def printed(table: str, problem: str) -> dict[str, dict[str, list[float]]]:
    """Return the printed range of each objective by algorithm."""
    about = TABLES[table]
    names = {name: algorithm for algorithm, name in fairness.ALGORITHMS.items()}
    by_algorithm: dict[str, dict[str, list[float]]] = {}
    for row, (value, _) in read_printed(about.file, fairness.DATA[problem.rpartition("-")[0]]):
        end, _, rest = row["metric"].partition("_")
        objective = OBJECTIVES[about.metric][rest.removesuffix("_on_front")]
        ranges = by_algorithm.setdefault(names[row["algorithm"]], {})
        ranges.setdefault(objective, [value, value])[end == "max"] = value
    return by_algorithm


def plan(
    table: str, *, only: str | None = None, rows: Sequence[str] | None = None, **options: Any
) -> Campaign[Comparison]:
    """Plan one problem of a table of ranges: the runs of its table of hypervolumes.

    Args:
        table: One of `TABLES`.
        only: The problem; None: the first of the table.
        rows: Some of the algorithms; None: all.
        **options: Seeds, and settings of all runs.
    """
    problem = only or problems_of(table)[0]
    if problem not in problems_of(table):
        raise unknown(f"problem of {table}", problem, problems_of(table))
    campaign = fairness.plan(TABLES[table].source, only=problem, rows=rows, **options)

    def tabulate(comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
        return _tabulate(table, problem, fairness.entries_of(problem, rows), comparisons[""])

    return replace(campaign, name=f"{table}-{problem}", tabulate=tabulate)


def needs(table: str) -> Needs:
    """Return contents and cost of a table."""
    source = fairness.needs(TABLES[table].source)
    title = f"Ranges of accuracy and fairness on the fronts of {TABLES[table].source}"
    return Needs(title, {name: source.hours[name] for name in problems_of(table)}, source.seeds)


def _tabulate(
    table: str, name: str, entries: Mapping[str, str], comparison: Comparison
) -> dict[str, Any]:
    about, figures, problem = TABLES[table], printed(table, name), find_problem(name)
    homogeneous, rows = fairness.TABLES[about.source].homogeneous, []
    for algorithm, entry in entries.items():
        runs = runs_of(comparison, entry)
        ours = {
            protocol: _ranges(problem, fairness.points_of(runs, last=last, homogeneous=homogeneous))
            for protocol, last in fairness.PROTOCOLS.items()
        }
        rows.append(
            {
                "algorithm": entry,
                "preferences": "same" if homogeneous else "dirichlet",
                "seeds": sorted({run.configuration.seed for run in runs}),
                "printed": figures[algorithm],
                **ours,
                "trivial": float(np.mean([run.results["trivial"]["accuracy"] for run in runs])),
            }
        )
    return {
        "table": table,
        "problem": name,
        "measure": "ranges",
        "models": {"printed": "last", "paper_protocol": "last", "our_defaults": "kept"},
        "note": about.note,
        "rows": rows,
    }


def _ranges(problem: Problem, points: FloatArray) -> dict[str, list[float]] | None:
    """Return the range of each objective on the front of the points that count."""
    vectors = front(points[problem.counts(points)])
    if not len(vectors):
        return None
    names = [objective.name for objective in problem.objectives]
    ends = np.stack([vectors.min(axis=0), vectors.max(axis=0)], axis=1).tolist()
    return dict(zip(names, ends, strict=True))
