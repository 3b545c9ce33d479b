"""Results of the runs of a task: one row per contender, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

PLAIN = "plain-loop"
"""The contender that others are compared with."""
HEADINGS = (
    "",
    "CPU ms per client-round",
    "plain loop / it",
    "start-up, CPU s (wall)",
    "peak MB",
    "wall s per round",
    "with two workers",
    "two runs equal",
    "off the plain loop",
    "accuracy",
)
Run = dict[str, Any]
"""One contender's run: its name, workers and repeat, and its measures or why there are none."""


def rows_of(runs: Sequence[Run], clients: int) -> list[list[str]]:
    """Return the cells of a table, one row per contender in the order of their first runs.

    Args:
        runs: All runs of one task.
        clients: Number of clients of the task.
    """
    names = list(dict.fromkeys(run["peer"] for run in runs))
    plain = _single(runs, PLAIN)
    return [[name, *_cells(name, runs, plain, clients)] for name in names]


def _single(runs: Sequence[Run], name: str) -> dict[int, Run]:
    """Return a contender's finished runs with one worker, by repeat."""
    return {
        run["repeat"]: run
        for run in runs
        if run["peer"] == name and run["workers"] == 1 and "failure" not in run
    }


def _cells(name: str, runs: Sequence[Run], plain: dict[int, Run], clients: int) -> list[str]:
    own = [run for run in runs if run["peer"] == name]
    single = _single(runs, name)
    if not single:
        return [
            next((run["failure"] for run in own if "failure" in run), "not run"),
            *["–"] * (len(HEADINGS) - 2),
        ]
    several = [run for run in own if run["workers"] == 2 and "failure" not in run]
    times = [1000 * run["cpu_per_round"] / clients for run in single.values()]
    ratios = [
        plain[repeat]["cpu_per_round"] / run["cpu_per_round"]
        for repeat, run in single.items()
        if repeat in plain and run["cpu_per_round"]
    ]
    firsts = list(single.values())
    off = [run["off_plain_first"] for run in firsts if run["off_plain_first"] is not None]
    return [
        _spread(times, ".3g"),
        _spread(ratios, ".2f"),
        f"{median(run['startup_cpu'] for run in firsts):.1f} "
        f"({median(run['startup_wall'] for run in firsts):.1f})",
        f"{median(run['peak'] for run in firsts):.0f}",
        _spread([run["wall_per_round"] for run in firsts], ".3g"),
        _spread([run["wall_per_round"] for run in several], ".3g"),
        _equal([run["digest"] for run in firsts], [run["digest"] for run in several]),
        f"{max(off):.0e}" if off else "not compared",
        f"{100 * median(run['accuracy'] for run in firsts):.1f} %",
    ]


def _spread(values: Sequence[float], form: str) -> str:
    """Return the median, and the least and the most of several values."""
    if not values:
        return "–"
    text = f"{median(values):{form}}"
    if len(values) == 1:
        return text
    return f"{text} ({min(values):{form}} to {max(values):{form}})"


def _equal(single: Sequence[str], several: Sequence[str]) -> str:
    """Return whether repeats ended with the same weights, and runs with two workers as well."""
    text = "one run" if len(single) < 2 else "yes" if len(set(single)) == 1 else "no"
    if not several:
        return text
    same = set(several) == set(single) and len(set(single)) == 1
    return f"{text}; two workers {'the same' if same else 'others'}"


def markdown(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown under a title."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    return "\n".join([f"### {title}", "", *(f"| {' | '.join(line)} |" for line in lines), ""])
