"""A comparison under attacks as a table: algorithms down, attacks across."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comity.configuration import attack_of
from comity.core.typing import FloatArray
from comity.report.measures import by_preferences
from comity.report.series.comparison import measure_arrays
from comity.runs.differences import PAIRED
from comity.runs.schema import ComparisonResults


@dataclass(frozen=True)
class Attacked:
    """Mean value of honest clients under each attack, for one distribution of preferences."""

    preferences: str
    entries: list[str]
    attacks: list[str]
    means: FloatArray
    """Entries x attacks, mean over seeds; NaN where there is no run."""
    stds: FloatArray


def attacked(comparison: ComparisonResults) -> list[Attacked]:
    """Return one table per distribution of preferences; none where nobody attacks.

    Args:
        comparison: The content of ``comparison.json``.
    """
    rows = by_preferences(comparison["rows"])
    parts = {row["algorithm"]: attack_of(row["algorithm"]) for row in rows}
    entries = list(dict.fromkeys(entry for entry, _ in parts.values()))
    attacks = list(dict.fromkeys(attack for _, attack in parts.values()))
    if attacks == ["none"]:
        return []
    tables = []
    for kind in dict.fromkeys(row["preferences"] for row in rows):
        same = [row for row in rows if row["preferences"] == kind]
        means, stds = measure_arrays(same, PAIRED, list(parts), [kind])
        shape = len(entries), len(attacks)
        table = Attacked(kind, entries, attacks, np.full(shape, np.nan), np.full(shape, np.nan))
        for place, (entry, attack) in enumerate(parts.values()):
            cell = entries.index(entry), attacks.index(attack)
            table.means[cell], table.stds[cell] = means[place, 0], stds[place, 0]
        tables.append(table)
    return tables
