"""A short run with loggers, and the values that they must have written."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from comity.callbacks import Callback, notifying
from comity.runs.directory import Run
from comity.runs.execute import execute
from tests.tiny import tiny


def logged_run(path: Path, *callbacks: Callback) -> Run:
    """Execute a run of two rounds with loggers."""
    run = Run.create(path, tiny(clients=2, rounds=2, algorithm="fedavg", problem="tiny-people"))
    with notifying(callbacks, None) as notify:
        return execute(run, notify=notify)


def trained(run: Run, objective: str) -> list[float]:
    """Return the mean over clients of an objective after training, one per round."""
    place = [each.name for each in run.configuration.get_problem().objectives].index(objective)
    return [float(np.mean([row[place] for row in line["trained"]])) for line in run.history[:2]]
