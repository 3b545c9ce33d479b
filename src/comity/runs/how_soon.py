"""Rounds and seconds that a run takes to an accuracy; seconds of training and mixing.

Accuracy is that of all clients on their validation data, absent clients included, in the rounds in
which all are evaluated (``evaluate_every``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comity.errors import UserError
from comity.problems import DataProblem, find
from comity.runs.directory import Run
from comity.runs.schema import ComparisonResults, HowSoon

STABLE = 0.99
"""Share of its highest validation accuracy with which a run counts as stable."""


def validation_of_all(run: Run) -> dict[int, float]:
    """Return the mean validation value over all clients in the rounds where all were validated."""
    return {
        entry["round"]: float(np.mean(np.array(entry["everyone"], dtype=float)))
        for entry in run.history
        if "everyone" in entry
    }


def first_round(run: Run, target: float) -> int | None:
    """Return the first evaluated round whose validation accuracy reaches ``target``, if any."""
    reached = (round for round, value in validation_of_all(run).items() if value >= target)
    return next(reached, None)


def stable_round(run: Run) -> int | None:
    """Return the first evaluated round with 99 % of the run's highest validation accuracy."""
    values = validation_of_all(run).values()
    return first_round(run, STABLE * max(values)) if values else None


def seconds_until(run: Run, round: int) -> float:
    """Return the seconds of clients and server until the end of a round.

    Times are kept for the whole run, so rounds count as equally long.
    """
    return sum(run.spent.values()) * round / run.configuration.rounds


def how_soon(runs: Sequence[Run], target: float) -> HowSoon:
    """Return when each of several runs first reaches an accuracy; None where it never does.

    Args:
        runs: Finished runs, one per seed.
        target: The validation accuracy.
    """
    rounds = [first_round(run, target) for run in runs]
    return {
        "target": target,
        "rounds": rounds,
        "seconds": [
            None if round is None else seconds_until(run, round)
            for run, round in zip(runs, rounds, strict=True)
        ],
    }


def with_how_soon(
    results: ComparisonResults,
    runs: Mapping[tuple[str, str], Sequence[Run]],
    target: float | None,
) -> ComparisonResults:
    """Return the table of a comparison with when each row reaches a target, if there is one.

    Args:
        results: The table.
        runs: The runs behind it, by entry and preferences.
        target: The validation accuracy; None: the table as it is.
    """
    if target is None:
        return results
    rows = results["rows"]
    soon = [how_soon(runs[row["algorithm"], row["preferences"]], target) for row in rows]
    return {
        **results,
        "rows": [{**row, "how_soon": value} for row, value in zip(rows, soon, strict=True)],
    }


def check_target(plan: Mapping[str, Any]) -> None:
    """Refuse (`UserError`) a plan of a comparison whose target means nothing.

    Args:
        plan: Problem, settings and, if there is one, the target.
    """
    if "target" not in plan:
        return
    target, problem = plan["target"], find(plan["problem"])
    if isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target <= 1:
        raise UserError(f"target = {target}: must be an accuracy above 0 and at most 1.")
    if not isinstance(problem, DataProblem) or len(problem.objectives) > 1:
        raise UserError(
            f"target means nothing for {problem.name}: it is for data with one objective, such as "
            "usps."
        )
    run = {**problem.run_defaults, **plan["settings"]}
    every, rounds = run.get("evaluate_every", 0), run.get("rounds", 1)
    if not every or every > rounds:
        raise UserError(
            f"target: all clients are validated every evaluate_every = {every} rounds (0: never), "
            f"and there are {rounds}. Set evaluate_every from 1 to {rounds}."
        )
