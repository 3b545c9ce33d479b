"""How the thesis prints the settings that its grid search chose for the fairness problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = (
    "adult-gender",
    "adult-race",
    "law-school-gender",
    "law-school-race",
    "credit-default-gender",
)

Table = Mapping[str, Sequence[Any]]
"""Values by setting, one a column of the printed table."""


def fairness_settings(*, eo: Table, dp: Table) -> dict[str, dict[str, Any]]:
    """The tables A.10 to A.12, for equal opportunity and demographic parity, by problem."""
    return {
        f"{data}-{metric}": {setting: values[place] for setting, values in table.items()}
        for metric, table in (("eo", eo), ("dp", dp))
        for place, data in enumerate(COLUMNS)
    }
