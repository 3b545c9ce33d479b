"""Terms for the two kinds of problems: clients with environments, clients with data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from comity.report.measures import has_data, has_single_objective
from comity.runs.schema import ComparisonResults, Results
from comity.runs.search_schema import MeanEffort, SearchEffort


@dataclass(frozen=True)
class Terms:
    """Terms that reports use for one kind of problem."""

    tests: str
    """The data or episodes that final models are judged on."""
    value: str
    """The value of a model for a client."""
    unit: str
    """The unit of the cost of learning."""
    steps: str
    """The x axis of learning curves."""
    trivial: str
    """The baseline without any learning."""


ENVIRONMENTS = Terms(
    tests="test episodes",
    value="return",
    unit="environment steps",
    steps="environment steps per client (training + validation)",
    trivial="doing nothing",
)
DATA = Terms(
    tests="test samples",
    value="score",
    unit="training steps",
    steps="training steps per client",
    trivial="the constant classifier, which gives a client's commonest answer to everything and is "
    "never left out itself",
)
SINGLE_OBJECTIVE = replace(
    DATA,
    trivial="the constant classifier, which gives a client's commonest answer to everything",
)
"""Of data with a single objective, where nothing is left out of a front."""
SEARCHED_DATA = replace(
    DATA,
    trivial="the constant classifier, which gives the commonest answer to everything and is never "
    "left out itself",
)
"""Of searches on data, whose models are judged on the samples of all clients."""


def terms_of(results: Results) -> Terms:
    """Return the terms for a run."""
    return _terms("samples" in results, has_single_objective(results))


def comparison_terms(comparison: ComparisonResults) -> Terms:
    """Return the terms for a comparison."""
    return _terms(has_data(comparison), has_single_objective(comparison))


def search_terms(record: SearchEffort | MeanEffort) -> Terms:
    """Return the terms for a search; its results, its control or a row of a comparison tell."""
    return SEARCHED_DATA if "training_steps" in record else ENVIRONMENTS


def _terms(data: bool, single_objective: bool) -> Terms:
    if not data:
        return ENVIRONMENTS
    return SINGLE_OBJECTIVE if single_objective else DATA
