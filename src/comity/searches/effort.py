"""Steps that a search took: in environments, or on data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comity.runs.search_schema import MeanEffort, SearchEffort


def effort_of(record: SearchEffort) -> SearchEffort:
    """Return the steps of some results or of an entry of the history, and nothing else."""
    if "training_steps" in record:
        return {"training_steps": record["training_steps"]}
    return {"environment_steps": record["environment_steps"]}


def total_steps(record: SearchEffort) -> int:
    """Return all steps, of whatever kind."""
    if "training_steps" in record:
        return record["training_steps"]
    return sum(record["environment_steps"].values())


def mean_effort(records: Sequence[SearchEffort]) -> MeanEffort:
    """Return the mean number of steps of some searches."""
    steps = float(np.mean([total_steps(record) for record in records]))
    if "training_steps" in records[0]:
        return {"training_steps": steps}
    return {"environment_steps": steps}


def mean_steps(row: MeanEffort) -> float:
    """Return the mean number of steps in a row of a comparison."""
    return row["training_steps"] if "training_steps" in row else row["environment_steps"]
