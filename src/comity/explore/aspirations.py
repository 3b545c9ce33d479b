"""Aspirations: levels that objectives should reach, and the model that serves them best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comity.core.typing import FloatArray
from comity.errors import UserError
from comity.explore.arrays import rounded
from comity.report.measures import number


@dataclass(frozen=True)
class Choice:
    """The candidate that serves some levels best."""

    place: int
    """Its index among the candidates."""
    preference: FloatArray
    levels: list[float | None]
    values: FloatArray
    """Its objectives, on the rows by which it was chosen."""
    met: bool
    text: str

    def as_json(self, test: FloatArray) -> dict[str, Any]:
        """Return the choice as JSON.

        Args:
            test: Its objectives on test rows.
        """
        return {
            "levels": self.levels,
            "met": self.met,
            "preference": rounded(self.preference),
            "validation": rounded(self.values),
            "test": rounded(test),
            "text": self.text,
        }


def choose(
    levels: Sequence[float | None],
    preferences: FloatArray,
    values: FloatArray,
    own: FloatArray,
    names: Sequence[str],
) -> Choice:
    """Return the candidate that serves some levels best.

    Of those that reach all levels it is the one that is worth most at the client's own preference.
    If none does, it is the one whose largest shortfall is smallest, each measured in shares of what
    the candidates span in that objective.

    Args:
        levels: Level of each objective; None where any will do.
        preferences: Preference behind each candidate (candidates x objectives).
        values: Objectives of each candidate.
        own: The client's preference.
        names: Names of the objectives.
    """
    if len(levels) != len(names):
        raise UserError(
            f"aspiration: there are {len(names)} objectives ({', '.join(names)}), got "
            f"{len(levels)} levels; give one each, or nothing between commas."
        )
    bounds = np.array([-np.inf if level is None else level for level in levels])
    defined = np.isfinite(values).all(axis=1)
    reached = defined & (values >= bounds).all(axis=1)
    met = bool(reached.any())
    if met:
        place = int(np.where(reached, values @ own, -np.inf).argmax())
    else:
        spans = np.ptp(values[defined], axis=0) if defined.any() else np.ones(len(names))
        lacks = (bounds - values) / np.where(spans > 0, spans, 1.0)
        place = int(np.where(defined, lacks.max(axis=1), np.inf).argmin())
    text = _text(levels, values[place], names, met)
    return Choice(place, preferences[place], list(levels), values[place], met, text)


def _text(
    levels: Sequence[float | None], values: FloatArray, names: Sequence[str], met: bool
) -> str:
    """Return a sentence on a choice: that it reaches all levels, or by how much it fails."""
    if met:
        return "All levels are reached."
    lacking = [
        f"{name} reaches {number(value)} of {number(level)}"
        for name, level, value in zip(names, levels, values.tolist(), strict=True)
        if level is not None and not value >= level
    ]
    return f"No model reaches all levels; the nearest: {', '.join(lacking)}."
