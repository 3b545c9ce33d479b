"""How reports speak of the two kinds of problems: clients with environments, clients with data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from comity.report.measures import has_data, single


@dataclass(frozen=True)
class Terms:
    """What things are called."""

    tests: str
    """What the final models are judged on."""
    value: str
    """What a model brings a client."""
    unit: str
    """What learning costs."""
    steps: str
    """What learning curves run over."""
    trivial: str
    """The baseline that has learned nothing."""


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
ALONE = replace(
    DATA,
    trivial="the constant classifier, which gives a client's commonest answer to everything",
)
"""Of data with a single objective, where nothing is left out of a front."""


def words_of(results: Mapping[str, Any]) -> Terms:
    """Those for a run, or for a comparison."""
    data = has_data(results) if "rows" in results else "samples" in results
    if not data:
        return ENVIRONMENTS
    return ALONE if single(results) else DATA
